package jobs

import (
	"context"
	"fmt"

	"github.com/reelay/reelay/models"
)

// AuditLog lists what operators did (to one target, unless it is ""), newest
// first. It is for ADMIN.
func (r *Reader) AuditLog(ctx context.Context, p Principal, target string, of PageOf) (*Page[*models.AuditEntry], error) {
	if err := p.isAdmin(); err != nil {
		return nil, err
	}
	if !validText(target, 0, maxTargetRunes) {
		return nil, invalid("target", "target may have %d printable characters.", maxTargetRunes)
	}
	all := listOf("aud", target)
	mark, err := all.begin(of)
	if err != nil {
		return nil, err
	}
	found, err := models.ListAudit(ctx, r.DB, target, models.AuditID(mark), of.First+1)
	if err != nil {
		return nil, fmt.Errorf("list the audit log: %w", err)
	}
	return page(all, found, of.First, func(e *models.AuditEntry) string { return string(e.ID) }), nil
}
