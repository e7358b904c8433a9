package query

import (
	"context"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

const (
	// minPrefix is the minimum number of hex digits of a prefix.
	minPrefix = 6
	// maxFound is how many ids a look-up returns.
	maxFound = 10
)

// lookupRoles are the kinds of ids that can be looked up, and the roles that may.
var lookupRoles = map[string]models.Role{
	"job": models.RoleClient, "bulk": models.RoleClient, "whk": models.RoleClient, "whd": models.RoleClient, "wfl": models.RoleClient,
	"wrk": models.RoleViewer, "acc": models.RoleViewer, "pol": models.RoleViewer, "dead": models.RoleViewer,
	"alr": models.RoleViewer, "sil": models.RoleViewer, "key": models.RoleAdmin, "mem": models.RoleAdmin,
}

// IDs returns the ids that begin with a prefix such as job_01937d3e, the oldest first, at most
// 10, as far as the caller may see them. A prefix that is too short, or not of an id, is
// INVALID_INPUT.
func (r *Reader) IDs(ctx context.Context, p jobs.Principal, prefix string) ([]string, error) {
	kind, digits, _ := strings.Cut(strings.ToLower(prefix), "_")
	role, known := lookupRoles[kind]
	if !known {
		return nil, apierror.Invalid("prefix", "An id begins with its kind, such as job_01937d3e.")
	}
	from, to, ok := uuidRange(digits)
	if !ok || len(strings.ReplaceAll(digits, "-", "")) < minPrefix {
		return nil, apierror.Invalid("prefix", "A shortened id needs its first 6 hex digits at least, such as %s_01937d3e.", kind)
	}
	if !p.MayRead(role) {
		return []string{}, nil
	}
	ids, whole, err := models.FindIDs(ctx, r.DB, kind, from, to, p.Scope(), maxFound)
	switch {
	case err != nil:
		return nil, apierror.Wrap(err, "look up ids")
	case !whole:
		return nil, apierror.Invalid("prefix", "Too many ids match: give more digits.")
	case ids == nil:
		return []string{}, nil
	}
	return ids, nil
}
