package erase

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/periodic"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/erasure"
	"github.com/uptrace/bun"
)

const (
	// Every is how often the passes run.
	Every = time.Second
	// turnTime is how long a pass works on one account. passTime bounds a pass.
	turnTime = 5 * time.Second
	passTime = 20 * time.Second
	// rest is the pause after a transaction, in multiples of its duration.
	rest = 1
	// jobsWait is the pause while jobs that were cancelled have not ended.
	jobsWait = time.Second
	// statementLimit bounds a statement, lockLimit how long it may wait for a lock.
	statementLimit = 5 * time.Second
	lockLimit      = 100 * time.Millisecond
)

// Pass works on the deletions that are due, and returns how many rows it deleted. Any number of processes may call it at
// once: an account has the attention of one of them.
func (e *Eraser) Pass(ctx context.Context) (total int, err error) {
	end := time.Now().Add(passTime)
	var served []models.AccountID
	var failed []error
	for ctx.Err() == nil && time.Now().Before(end) {
		id, err := erasure.Next(ctx, e.DB, served)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("find deletions of accounts: %w", err))
			break
		}
		n, err := e.turn(ctx, id)
		total += n
		if err != nil {
			failed = append(failed, fmt.Errorf("delete account %s: %w", id, err))
		}
		served = append(served, id)
	}
	return total, errors.Join(failed...)
}

// turn does the parts of a deletion in their order, each until it finds nothing more, as long as the turn lasts.
func (e *Eraser) turn(ctx context.Context, id models.AccountID) (total int, err error) {
	end := time.Now().Add(turnTime)
	for _, part := range e.parts() {
		for more := true; more; {
			if ctx.Err() != nil || time.Now().After(end) {
				return total, nil // the next pass continues
			}
			begun := time.Now()
			n, err := e.step(ctx, id, part)
			total += n
			switch {
			case errors.Is(err, sql.ErrNoRows), errors.Is(err, errWait), models.IsLockTimeout(err):
				return total, nil // another process works on it, it waits for jobs, or others hold the rows
			case err != nil:
				return total, fmt.Errorf("%s: %w", part.what, err)
			}
			if more = n > 0; more {
				periodic.Rest(ctx, rest*time.Since(begun))
			}
		}
	}
	return total, nil
}

// errWait ends a turn whose account still has jobs.
var errWait = errors.New("jobs have not ended")

// step does one batch of a part, in one transaction, and returns how many rows that were. It returns sql.ErrNoRows if
// the deletion has ended, or if another process works on it.
func (e *Eraser) step(ctx context.Context, id models.AccountID, part part) (n int, err error) {
	var wait bool
	err = jobs.InTx(ctx, e.DB, func(ctx context.Context, tx bun.Tx) error {
		n, wait = 0, false
		if err := models.Bound(ctx, tx, statementLimit, lockLimit); err != nil {
			return err
		}
		d, err := erasure.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if n, err = part.do(ctx, tx, d); errors.Is(err, errWait) {
			wait = true
			return erasure.Save(ctx, tx, d, jobsWait)
		}
		if err != nil || n == 0 {
			return err
		}
		if part.kind != "" {
			d.Doing = part.kind
		}
		return erasure.Save(ctx, tx, d, 0)
	})
	if err == nil && wait {
		err = errWait
	}
	return n, err
}
