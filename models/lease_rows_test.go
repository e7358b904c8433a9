package models_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// liveFences returns leases of a database that FillWith filled.
func liveFences(t *testing.T, db *bun.DB, n int) []models.Fence {
	t.Helper()
	var attempts []*models.Attempt
	require.NoError(t, db.NewSelect().Model(&attempts).Where("a.ended_at IS NULL").Order("a.id").Limit(int64(n)).Scan(t.Context()))
	require.Len(t, attempts, n)
	holds := make([]models.Fence, n)
	for i, a := range attempts {
		holds[i] = models.Fence{WorkerID: a.WorkerID, AttemptID: a.ID, Token: a.FencingToken}
	}
	return holds
}

// free counts the unlocked rows of a table.
func free(t *testing.T, db *bun.DB, table string) (n int) {
	t.Helper()
	require.NoError(t, db.NewRaw("SELECT count(*) FROM (SELECT FROM ? FOR NO KEY UPDATE SKIP LOCKED) f", bun.Ident(table)).Scan(t.Context(),
		&n))
	return n
}

func TestLockHeld(t *testing.T) {
	t.Parallel()

	t.Run("LocksOnlyTheRowsOfValidLeases", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 4, 20, 20, 8)
		holds := liveFences(t, db, 4)
		over := new(models.Attempt)
		require.NoError(t, db.NewSelect().Model(over).Where("a.ended_at IS NOT NULL").Limit(1).Scan(t.Context()))
		right := holds[0]
		asked := []models.Fence{
			right, right,
			{WorkerID: right.WorkerID, AttemptID: right.AttemptID, Token: holds[1].Token},
			{WorkerID: holds[1].WorkerID, AttemptID: holds[1].AttemptID, Token: models.NewFencingToken()},
			{WorkerID: holds[2].WorkerID, AttemptID: holds[2].AttemptID},
			{WorkerID: right.WorkerID, AttemptID: holds[3].AttemptID, Token: holds[3].Token},
			{WorkerID: over.WorkerID, AttemptID: over.ID, Token: over.FencingToken},
			{WorkerID: models.NewWorkerID(), AttemptID: models.NewAttemptID(), Token: models.NewFencingToken()},
			{},
		}
		before := map[string]int{}
		for _, table := range []string{"accounts", "workers", "jobs", "job_attempts"} {
			before[table] = free(t, db, table)
		}

		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			now, locked, err := models.LockLeases(ctx, tx, asked, 0)

			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), now, time.Minute)
			require.Len(t, locked, 1)
			require.Equal(t, right.AttemptID, locked[0].Attempt.ID)
			require.Equal(t, right.Token, locked[0].Attempt.FencingToken)
			require.Equal(t, right.WorkerID, locked[0].Worker.ID)
			require.Equal(t, locked[0].Attempt.JobID, locked[0].Job.ID)
			for table, n := range before {
				taken := 1
				if table == "accounts" {
					taken = 0 // accounts are locked last, by the transaction that writes
				}
				require.Equal(t, n-taken, free(t, db, table), table)
			}
			return nil
		}))
	})

	t.Run("ReturnsRowsAsOfTheirLock", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 4, 20, 20, 8)
		holds := liveFences(t, db, 2)
		type answer struct {
			now    time.Time
			locked []models.LeaseRows
			err    error
		}
		answers := make(chan answer, 1)
		var changed time.Time

		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewRaw("UPDATE workers SET status = 'DRAINING', drain_reason = 'going' WHERE id = ?", holds[0].WorkerID).Exec(ctx)
			require.NoError(t, err)
			go func() {
				var a answer
				a.err = db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
					a.now, a.locked, err = models.LockLeases(ctx, tx, holds, 0)
					return err
				})
				answers <- a
			}()
			waitForLock(t, db)
			// The other job and its attempt are not locked yet. They change before they are.
			_, err = tx.NewRaw("UPDATE jobs SET percent = 77 WHERE id = (SELECT job_id FROM job_attempts WHERE id = ?)",
				holds[0].AttemptID).Exec(ctx)
			require.NoError(t, err)
			_, err = tx.NewRaw("UPDATE job_attempts SET status = 'LOST', failure_class = 'WORKER_LOST', ended_at = clock_timestamp() WHERE id = ?",
				holds[0].AttemptID).Exec(ctx)
			require.NoError(t, err)
			return tx.NewRaw("SELECT clock_timestamp()").Scan(ctx, &changed)
		}))
		a := <-answers

		require.NoError(t, a.err)
		require.Len(t, a.locked, 2)
		require.True(t, a.now.After(changed), "the clock is read last")
		for _, h := range a.locked {
			if h.Attempt.ID == holds[0].AttemptID {
				require.Equal(t, models.WorkerDraining, h.Worker.Status)
				require.Equal(t, 77.0, h.Job.Progress.Percent)
				require.Equal(t, models.AttemptLost, h.Attempt.Status)
				require.False(t, h.Attempt.EndedAt.IsZero())
			} else {
				require.Equal(t, models.WorkerBusy, h.Worker.Status)
			}
		}
	})
}

// waitForLock waits until a statement on the database waits for a lock.
func waitForLock(t *testing.T, db *bun.DB) {
	t.Helper()
	testrun.Eventually(t, "the calls wait for locks", func() bool {
		var waiting bool
		err := db.NewRaw(`SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(t.Context(), &waiting)
		return err == nil && waiting
	})
}

func TestLockPicks(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsEachPicksRowsOrNone", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.FillWith(t, db, 4, 20, 20, 8)
		var queued []*models.Job
		require.NoError(t, db.NewSelect().Model(&queued).Where("j.status = 'QUEUED'").Order("j.id").Limit(2).Scan(t.Context()))
		over := new(models.Job)
		require.NoError(t, db.NewSelect().Model(over).Where("j.status = 'FAILED'").Limit(1).Scan(t.Context()))
		worker := liveFences(t, db, 1)[0].WorkerID
		_, err := db.NewRaw("UPDATE accounts SET max_running = 7, running = 4 WHERE id = ?", queued[0].AccountID).Exec(t.Context())
		require.NoError(t, err)
		var before, now time.Time
		require.NoError(t, db.NewRaw("SELECT clock_timestamp()").Scan(t.Context(), &before))
		leasing, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer leasing.Rollback()
		_, err = leasing.NewRaw("SELECT FROM jobs WHERE id = ? FOR NO KEY UPDATE", queued[1].ID).Exec(t.Context())
		require.NoError(t, err)

		var all []models.Picked
		accounts := free(t, db, "accounts")
		{
			require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
				now, all, err = models.LockPicks(ctx, tx, []models.Pick{
					{AccountID: queued[0].AccountID, WorkerID: worker, JobID: over.ID},
					{AccountID: queued[0].AccountID, WorkerID: worker, JobID: queued[0].ID},
					{AccountID: models.NewAccountID(), WorkerID: models.NewWorkerID(), JobID: models.NewJobID()},
					{AccountID: queued[1].AccountID, WorkerID: worker, JobID: queued[1].ID},
					{},
				}, 0)
				require.Equal(t, accounts, free(t, db, "accounts"), "accounts are locked last")
				return err
			}))

			require.True(t, now.After(before))
			require.Len(t, all, 5)
			require.Equal(t, 3, *all[0].Room)
			require.Equal(t, worker, all[0].Worker.ID)
			require.Nil(t, all[0].Job, "it is over")
			require.Equal(t, 3, *all[1].Room)
			require.Equal(t, worker, all[1].Worker.ID)
			require.Equal(t, queued[0], all[1].Job)
			require.Equal(t, models.Picked{}, all[2], "there is no such job")
			require.NotNil(t, all[3].Room)
			require.Nil(t, all[3].Job, "somebody else is leasing it")
			require.Equal(t, models.Picked{}, all[4])
		}
	})
}
