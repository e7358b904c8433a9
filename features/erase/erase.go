// Package erase deletes accounts with all their data, in steps that any process continues.
package erase

import (
	"context"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/erasure"
	"github.com/uptrace/bun"
)

// Eraser deletes accounts with all their data.
//
// Start closes an account: from its commit on, its keys are refused, nothing new of it is accepted, and none of its jobs
// starts. Passes then delete the rest in small transactions, each of which counts what it deleted. A pass has no state
// but the rows that are left: after the end of a process, another one finds them.
type Eraser struct {
	DB        *bun.DB
	Canceller *operate.Canceller
	Notifier  *change.Notifier
	// ObjectsGone is how long after the last row of an account its objects are gone, if the store works: queued ones
	// within minutes, and what was uploaded with a link that was signed before as an orphan.
	ObjectsGone time.Duration
}

// closeWait is how long Start waits for submits of the account that are in progress.
const closeWait = 2 * time.Second

// Start begins the deletion of an account, and returns its report. name must be the account's name. For an account that
// is being deleted, or was, Start returns the report of its deletion, whatever the name.
//
// It is for ADMIN. It returns NOT_FOUND for an unknown account, INVALID_INPUT for another name, and CONFLICT for the
// caller's own account and for the one that has the last valid ADMIN keys.
func (e *Eraser) Start(ctx context.Context, p jobs.Principal, id models.AccountID, name string) (*Report, error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("account")
	}
	var closed *models.FlowState
	err := jobs.InTx(ctx, e.DB, func(ctx context.Context, tx bun.Tx) (err error) {
		closed, err = start(ctx, tx, p, id, name)
		return err
	})
	if err != nil {
		return nil, apierror.Wrap(err, "start the deletion of account %s", id)
	}
	if closed != nil {
		e.Notifier.Account(ctx, closed)
	}
	return e.Get(ctx, p, id)
}

// start closes the account, unless it is closed, and returns its new state for the index of ready jobs.
func start(ctx context.Context, tx bun.Tx, p jobs.Principal, id models.AccountID, name string) (*models.FlowState, error) {
	if err := models.Bound(ctx, tx, statementLimit, closeWait); err != nil {
		return nil, err
	}
	admins, err := access.LockAdmins(ctx, tx)
	if err != nil {
		return nil, err
	}
	if err := p.Revalidate(ctx, tx); err != nil {
		return nil, err
	}
	if err := models.LockSubmits(ctx, tx, id); err != nil {
		return nil, err
	}
	account, err := erasure.LockAccount(ctx, tx, id)
	if err != nil {
		return nil, apierror.OrNotFound(err, "account")
	}
	if !account.ClosedAt.IsZero() {
		return nil, nil
	}
	elsewhere, err := erasure.AdminsElsewhere(ctx, tx, id, admins)
	switch {
	case err != nil:
		return nil, err
	case p.AccountID == id:
		return nil, apierror.Conflict("This is the account of your own key or login: delete it as an ADMIN of another account.")
	case !elsewhere:
		return nil, apierror.Conflict("This account has the last ADMIN key that is valid: create one for another account first.")
	case name != account.Name:
		return nil, apierror.Invalid("name", "This is not the name of the account: type %q to delete it.", account.Name)
	}
	account.MaxQueued, account.MaxRunning, account.SubmitsPerMinute = 0, 0, 0
	counted, err := models.UpdateAccount(ctx, tx, account)
	if err != nil {
		return nil, err
	}
	if err := erasure.Close(ctx, tx, id); err != nil {
		return nil, err
	}
	if err := erasure.Insert(ctx, tx, &erasure.Deletion{AccountID: id, KeyID: p.KeyID}); err != nil {
		return nil, err
	}
	return change.FlowState(id, counted), p.Record(ctx, tx, "deleteAccount", string(id), jobs.Payload{"tier": account.Tier})
}
