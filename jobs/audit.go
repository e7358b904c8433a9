package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Audit records an operator's action in the transaction that performs it; an action with
// effects outside the database is recorded before. action is the name of the API's mutation.
// The payload has ids, and values before and after, but never a prompt or a secret.
func (p Principal) Audit(ctx context.Context, db bun.IDB, action, target string, more Payload) error {
	if p.Bulk != "" {
		more["bulkOperation"] = p.Bulk
	}
	if p.address != "" {
		more["address"] = p.address
	}
	data, err := json.Marshal(more)
	if err != nil {
		return fmt.Errorf("encode what %s did: %w", action, err)
	}
	entry := &models.AuditEntry{ID: models.NewAuditID(), KeyID: p.KeyID, Actor: hostName, Action: action, Target: target, Payload: data}
	if p.Member != nil {
		entry.KeyID, entry.MemberID, entry.Actor = "", p.Member.ID, p.Member.String()+" ("+strings.ToLower(string(p.Role))+")"
	}
	err = models.InsertAudit(ctx, db, entry)
	return apierror.Wrap(err, "write down %s", action)
}

// hostName is the actor of an action without a key.
const hostName = "reelay"

// AuditOf is Audit for an action that owners may perform on their own rows, too. It does not
// record owners.
func (p Principal) AuditOf(ctx context.Context, tx bun.Tx, action string, owner models.AccountID, target string, more Payload) error {
	if owner == p.AccountID || !p.May(models.RoleOperator) {
		return nil
	}
	more["account"] = owner
	return p.Audit(ctx, tx, action, target, more)
}

func (p Principal) auditJob(ctx context.Context, tx bun.Tx, action string, job *models.Job) error {
	return p.AuditOf(ctx, tx, action, job.AccountID, string(job.ID), Payload{"status": job.Status})
}

// MaxTargetRunes bounds the search text for the audit log's targets.
const MaxTargetRunes = 200
