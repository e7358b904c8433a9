package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/uptrace/bun"
)

// Audit records an operator's action in the transaction that performs it; an action with
// effects outside the database is recorded before. action is the name of the API's mutation.
// The payload has ids, and values before and after, but never a prompt or a secret.
//
// It returns FORBIDDEN if the caller lost its rights since it was authenticated: see Stands. The
// caller must then roll its transaction back.
func (p Principal) Audit(ctx context.Context, db bun.IDB, action, target string, more Payload) error {
	if err := p.Revalidate(ctx, db); err != nil {
		return err
	}
	return p.Record(ctx, db, action, target, more)
}

// Revalidate returns FORBIDDEN if the caller's member was disabled or got another role, or its key
// was revoked or has expired, since the caller was authenticated. Otherwise it holds the
// caller's row until the transaction ends: rights that are taken away meanwhile are taken after
// the action. The running server and bulk operations, which were checked when they began, stand.
func (p Principal) Revalidate(ctx context.Context, db bun.IDB) error {
	var stands bool
	var err error
	switch {
	case p.Bulk != "":
		return nil
	case p.Member != nil:
		stands, err = access.ShareLockMember(ctx, db, p.Member.ID, p.Role)
	case p.KeyID != "":
		stands, err = access.ShareLockAPIKey(ctx, db, p.KeyID)
	default:
		return nil
	}
	if err == nil && !stands {
		return apierror.Forbidden("Your login or key lost its rights while this was in progress. Nothing was changed. Log in again.")
	}
	return apierror.Wrap(err, "check the caller's rights")
}

// Record is Audit for what the caller may do without its rights, such as to log out, or for a
// caller whose rights this transaction has checked and then takes away.
func (p Principal) Record(ctx context.Context, db bun.IDB, action, target string, more Payload) error {
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
	entry := &access.AuditEntry{ID: models.NewAuditID(), KeyID: p.KeyID, Actor: HostName, Action: action, Target: target, Payload: data}
	if p.Member != nil {
		entry.KeyID, entry.MemberID, entry.Actor = "", p.Member.ID, p.Member.String()+" ("+strings.ToLower(string(p.Role))+")"
	}
	err = access.InsertAudit(ctx, db, entry)
	return apierror.Wrap(err, "write down %s", action)
}

// HostName is the actor of an action without a key.
const HostName = "reelay"

// AuditOf is Audit for an action that owners may perform on their own rows, too. It does not
// record owners.
func (p Principal) AuditOf(ctx context.Context, tx bun.Tx, action string, owner models.AccountID, target string, more Payload) error {
	if owner == p.AccountID || !p.May(access.RoleOperator) {
		return nil
	}
	more["account"] = owner
	return p.Audit(ctx, tx, action, target, more)
}

// AuditJob is AuditOf for an action on a job.
func (p Principal) AuditJob(ctx context.Context, tx bun.Tx, action string, job *models.Job) error {
	return p.AuditOf(ctx, tx, action, job.AccountID, string(job.ID), Payload{"status": job.Status})
}

// MaxTargetRunes bounds the search text for the audit log's targets.
const MaxTargetRunes = 200

// Payload is the data of an event.
type Payload map[string]any
