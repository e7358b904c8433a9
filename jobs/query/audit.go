package query

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/models"
)

// AuditLog lists what operators did (to one target, unless it is ""), newest
// first. It is for ADMIN.
func (r *Reader) AuditLog(ctx context.Context, p jobs.Principal, target string, of paging.Request) (*paging.Page[*models.AuditEntry], error) {
	return r.SearchAudit(ctx, p, models.AuditFilter{Target: target}, of)
}

// SearchAudit lists the acts that match, newest first. It is for ADMIN.
func (r *Reader) SearchAudit(ctx context.Context, p jobs.Principal, f models.AuditFilter, of paging.Request) (*paging.Page[*models.AuditEntry], error) {
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
	found, err := models.SearchAudit(ctx, r.DB, f, models.AuditID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", err)
	}
	return paging.NewPage(all, found, of.First, func(e *models.AuditEntry) string { return string(e.ID) }), nil
}
