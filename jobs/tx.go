package jobs

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/internal/batch"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

const (
	// txTries is how often a transaction is begun that others stand in the way of.
	txTries = 4
	txPause = 20 * time.Millisecond
)

// InTx runs act in a transaction, and anew, a moment later, if PostgreSQL undid
// it only because of others at the same time. What act keeps in variables must
// come from what it read in its last run. After an outage (models.IsOutage), and if
// ctx ends, it is not known whether the commit took place.
func InTx(ctx context.Context, db *bun.DB, act func(ctx context.Context, tx bun.Tx) error) error {
	return anew(ctx, func() error { return db.RunInTx(ctx, nil, act) })
}

// InSnapshot runs act in a transaction that only reads: all its statements see the rows
// as they were when the first of them began.
func InSnapshot(ctx context.Context, db *bun.DB, act func(ctx context.Context, tx bun.Tx) error) error {
	return db.RunInTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, act)
}

// batchError is the error of a batch for its batch.Group. An outage meets all calls of
// the batch alike, and leaves unknown whether they were carried out: none runs again.
func batchError(err error) error {
	if models.IsOutage(err) && !models.IsLostRace(err) {
		return batch.Final(err)
	}
	return err
}

// anew is what inTx does of a transaction, for a statement that is one by itself.
func anew(ctx context.Context, act func() error) error {
	for try := time.Duration(1); ; try++ {
		err := act()
		if err == nil || try == txTries || !models.IsLostRace(err) {
			return err
		}
		select {
		case <-time.After(rand.N(try * txPause)):
		case <-ctx.Done():
			return err
		}
	}
}
