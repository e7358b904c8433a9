package jobs

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

const (
	// txTries is how often a transaction is tried that conflicts with others.
	txTries = 4
	txPause = 20 * time.Millisecond
)

// InTx runs act in a transaction, and retries it after a short pause if PostgreSQL aborted it
// only because of concurrent transactions. act must reset the variables that it sets. After an
// outage (postgres.IsOutage), or if ctx ends, it is unknown whether the commit took place.
func InTx(ctx context.Context, db *bun.DB, act func(ctx context.Context, tx bun.Tx) error) error {
	return WithRetry(ctx, func() error { return db.RunInTx(ctx, nil, act) })
}

// InSnapshot runs act in a read-only transaction. All its statements see one snapshot, taken
// by the first of them.
func InSnapshot(ctx context.Context, db *bun.DB, act func(ctx context.Context, tx bun.Tx) error) error {
	return db.RunInTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, act)
}

// BatchError returns the error of a batch for its batch.Group. An outage affects all calls of
// the batch and leaves unknown whether they were carried out, so none is retried.
func BatchError(err error) error {
	if postgres.IsOutage(err) && !postgres.IsLostRace(err) {
		return batch.Final(err)
	}
	return err
}

// TurnLimit is how long a batch of calls waits for a lock.
const TurnLimit = 50 * time.Millisecond

// InTurn runs a call in a batch with concurrent ones, which waits for each lock up to TurnLimit. If a
// lock takes longer, the call goes on alone, without a limit. Without this, one call that waits for
// another account's rows would delay all calls of the group.
func InTurn[T any](ctx context.Context, g *batch.Group[T], call T,
	run func(ctx context.Context, calls []T, patience time.Duration) error) error {
	err := g.Do(ctx, call, func(ctx context.Context, calls []T) error { return run(ctx, calls, TurnLimit) })
	if postgres.IsLockTimeout(err) {
		return run(ctx, []T{call}, 0)
	}
	return err
}

// WithRetry is InTx for a single statement.
func WithRetry(ctx context.Context, act func() error) error {
	for try := time.Duration(1); ; try++ {
		err := act()
		if err == nil || try == txTries || !postgres.IsLostRace(err) {
			return err
		}
		select {
		case <-time.After(rand.N(try * txPause)):
		case <-ctx.Done():
			return err
		}
	}
}
