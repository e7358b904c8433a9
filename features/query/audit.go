package query

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/samber/lo"
)

// Act is an entry of the audit log in words.
type Act struct {
	*access.AuditEntry
	// TargetName is the present name of the target, or nil if it has none.
	TargetName *string
	// Details are what the act says of itself, one value each, such as "maxRunning: 3 → 5". Ids follow the names of what they name.
	Details []string
}

// AuditLog lists what operators did (to one target, unless it is ""), newest
// first. It is for ADMIN.
func (r *History) AuditLog(ctx context.Context, p jobs.Principal, target string, of paging.Request) (*paging.Page[*Act], error) {
	return r.Audit(ctx, p, access.AuditFilter{Target: target}, of)
}

// Audit lists the acts that match, newest first. It is for ADMIN.
func (r *History) Audit(ctx context.Context, p jobs.Principal, f access.AuditFilter, of paging.Request) (*paging.Page[*Act], error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	for _, field := range []struct{ name, value string }{{"target", f.Target}, {"actor", f.Actor}, {"action", f.Action}} {
		if !text.Valid(field.value, 0, jobs.MaxTargetRunes) {
			return nil, apierror.Invalid(field.name, "%s may have %d printable characters.", field.name, jobs.MaxTargetRunes)
		}
	}
	all := paging.ListOf("aud", f.Target, f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	found, err := access.SearchAudit(ctx, r.db, f, models.AuditID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", err)
	}
	names, err := r.actNames(ctx, found)
	if err != nil {
		return nil, err
	}
	acts := make([]*Act, len(found))
	for i, entry := range found {
		acts[i] = &Act{AuditEntry: entry, TargetName: lo.EmptyableToPtr(names[entry.Target]), Details: ActLines(entry.Payload, names)}
	}
	return paging.NewPage(all, acts, of.First, func(a *Act) string { return string(a.ID) }), nil
}
