package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// audit writes down what an operator does, in the transaction in which he does
// it; what reaches beyond the database is written down before. The action is
// named as the API's mutation is. The payload has ids, and values before and
// after; never a prompt, nor a secret.
func (p Principal) audit(ctx context.Context, db bun.IDB, action, target string, more payload) error {
	if p.bulk != "" {
		more["bulkOperation"] = p.bulk
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
	return wrap(err, "write down %s", action)
}

// hostName is the actor of what was done without a key.
const hostName = "reelay"

// auditOf is audit for what owners do to their own, too: of that nothing is
// written down.
func (p Principal) auditOf(ctx context.Context, tx bun.Tx, action string, owner models.AccountID, target string, more payload) error {
	if owner == p.AccountID || !p.May(models.RoleOperator) {
		return nil
	}
	more["account"] = owner
	return p.audit(ctx, tx, action, target, more)
}

func (p Principal) auditJob(ctx context.Context, tx bun.Tx, action string, job *models.Job) error {
	return p.auditOf(ctx, tx, action, job.AccountID, string(job.ID), payload{"status": job.Status})
}

// maxTargetRunes bounds what is looked for in the audit log.
const maxTargetRunes = 200
