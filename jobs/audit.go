package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Audit writes down what an operator does, in the transaction in which he does
// it; what reaches beyond the database is written down before. The action is
// named as the API's mutation is. The payload has ids, and values before and
// after; never a prompt, nor a secret.
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
	err = models.InsertAudit(ctx, db, &models.AuditEntry{
		ID: models.NewAuditID(), KeyID: p.KeyID, Actor: hostName, Action: action, Target: target, Payload: data,
	})
	return apierror.Wrap(err, "write down %s", action)
}

// hostName is the actor of what was done without a key.
const hostName = "reelay"

// AuditOf is audit for what owners do to their own, too: of that nothing is
// written down.
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

// MaxTargetRunes bounds what is looked for in the audit log.
const MaxTargetRunes = 200
