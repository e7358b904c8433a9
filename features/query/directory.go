package query

import (
	"context"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// Directory finds ids by their prefix, and accounts and the names of keys by their ids.
type Directory struct {
	db *bun.DB
}

const (
	// minPrefix is the minimum number of hex digits of a prefix.
	minPrefix = 6
	// maxFound is how many ids a look-up returns.
	maxFound = 10
)

// lookupRoles are the kinds of ids that can be looked up, and the roles that may.
var lookupRoles = map[string]access.Role{
	"job": access.RoleClient, "bulk": access.RoleClient, "whk": access.RoleClient, "whd": access.RoleClient, "wfl": access.RoleClient,
	"wrk": access.RoleViewer, "acc": access.RoleViewer, "pol": access.RoleViewer, "dead": access.RoleViewer,
	"alr": access.RoleViewer, "sil": access.RoleViewer, "key": access.RoleAdmin, "mem": access.RoleAdmin,
}

// IDs returns the ids that begin with a prefix such as job_01937d3e, the oldest first, at most
// 10, as far as the caller may see them. A prefix that is too short, or not of an id, is
// INVALID_INPUT.
func (r *Directory) IDs(ctx context.Context, p jobs.Principal, prefix string) ([]string, error) {
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
	ids, whole, err := models.FindIDs(ctx, r.db, kind, from, to, p.Scope(), maxFound)
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

// Accounts returns accounts by their ids, in any order. It is for the owners of rows that the caller was shown.
func (r *Directory) Accounts(ctx context.Context, ids []models.AccountID) ([]*models.Account, error) {
	found, err := models.GetAccounts(ctx, r.db, ids)
	return found, apierror.Wrap(err, "read accounts")
}

// anOperator replaces the name of an operator's key for clients.
const anOperator = "an operator"

// KeyNames returns the names of keys that did something. A client sees keys of other accounts
// only as "an operator".
func (r *Directory) KeyNames(ctx context.Context, p jobs.Principal, ids []models.KeyID) (map[models.KeyID]string, error) {
	keys, err := access.GetAPIKeys(ctx, r.db, ids)
	if err != nil {
		return nil, apierror.Wrap(err, "read the names of keys")
	}
	names := make(map[models.KeyID]string, len(keys))
	for _, key := range keys {
		names[key.ID] = anOperator
		if p.Sees(key.AccountID) {
			names[key.ID] = key.Name
		}
	}
	return names, nil
}
