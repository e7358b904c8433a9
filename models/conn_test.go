package models_test

import (
	"bytes"
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// lone returns a filled database with a single connection. The test fails if a transaction is
// left open on it.
func lone(t *testing.T, dsn string) *bun.DB {
	t.Helper()
	db, done, err := postgres.Open(t.Context(), dsn, 1)
	require.NoError(t, err)
	t.Cleanup(done)
	modelstest.FillWith(t, db, 4, 20, 20, 8)
	t.Cleanup(func() {
		var begun [2]time.Time
		for i := range begun {
			require.NoError(t, db.NewRaw("SELECT now()").Scan(context.Background(), &begun[i]))
		}
		require.NotEqual(t, begun[0], begun[1], "a transaction is open")
	})
	return db
}

// renamed returns the write of a new phase to a locked job.
func renamed(job *models.Job) models.Writes {
	is := *job
	is.Phase += "!"
	return models.Writes{Jobs: []models.Changed[models.Job]{{Was: job, Is: &is}}}
}

// changed locks a queued job, passes it to make, and writes the result, all in one
// transaction.
func changed(t *testing.T, db *bun.DB, make func(job *models.Job) models.Writes) (models.JobID, error) {
	t.Helper()
	var account models.AccountID
	var id models.JobID
	worker := liveFences(t, db, 1)[0].WorkerID
	require.NoError(t, db.NewRaw("SELECT account_id, id FROM jobs WHERE status = 'QUEUED' ORDER BY id LIMIT 1").Scan(t.Context(), &account,
		&id))
	return id, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, picked, err := models.LockPicks(ctx, tx, []models.Pick{{AccountID: account, WorkerID: worker, JobID: id}}, 0)
		if err != nil {
			return err
		}
		w := make(picked[0].Job)
		return w.Write(ctx, tx)
	})
}

func requirePhase(t *testing.T, db *bun.DB, id models.JobID, name models.Phase) {
	t.Helper()
	job, err := models.GetJob(t.Context(), db, id)
	require.NoError(t, err)
	require.Equal(t, name, job.Phase)
}

func TestTransaction(t *testing.T) {
	t.Parallel()

	for what, c := range map[string]struct {
		make  func(*models.Job) models.Writes
		check func(*testing.T, error)
	}{
		"ARowIsNotAsItHasToBe": {
			make: func(job *models.Job) models.Writes {
				w := renamed(job)
				other := *job
				other.Status = models.JobBlocked
				w.Jobs[0].Was = &other
				w.Events = []*models.JobEvent{{JobID: job.ID, Seq: 99, Run: 1, Type: models.EventProgress, Payload: []byte("{}"),
					CreatedAt: time.Now()}}
				return w
			},
			check: func(t *testing.T, err error) { require.ErrorIs(t, err, sql.ErrNoRows) },
		},
		"TheStatementFails": {
			make: func(job *models.Job) models.Writes {
				w := renamed(job)
				w.Jobs[0].Is.MaxAttempts = 99
				return w
			},
			check: func(t *testing.T, err error) { require.ErrorContains(t, err, "jobs_max_attempts_check") },
		},
		"ItCannotBeCommitted": {
			make: func(job *models.Job) models.Writes {
				w := renamed(job)
				w.Jobs[0].Is.ResultID = models.NewArtifactID() // checked at COMMIT
				return w
			},
			check: func(t *testing.T, err error) {
				refused := new(pgconn.PgError)
				require.ErrorAs(t, err, &refused)
				require.Equal(t, "23503", refused.Code)
			},
		},
	} {
		t.Run("LeavesNoTraceIf"+what, func(t *testing.T) {
			t.Parallel()
			db := lone(t, modelstest.DSN(t))

			id, err := changed(t, db, c.make)

			c.check(t, err)
			requirePhase(t, db, id, "WAITING")
			var events int
			require.NoError(t, db.NewRaw("SELECT count(*) FROM job_events WHERE seq = 99").Scan(t.Context(), &events))
			require.Zero(t, events)
			_, err = changed(t, db, renamed)
			require.NoError(t, err, "the connection goes on")
		})
	}

	t.Run("ReportsAnUnknownResultIfTheResponseIsLost", func(t *testing.T) {
		t.Parallel()
		dsn, proxy := modelstest.Proxied(t)
		db := lone(t, dsn)
		proxy.Lose(func(answer []byte) bool { return bytes.Contains(answer, []byte("COMMIT\x00")) })

		id, err := changed(t, db, renamed)
		proxy.Lose(nil)

		require.True(t, postgres.IsOutage(err), "%v", err)
		testrun.Eventually(t, "PostgreSQL serves again", func() bool { return db.Ping() == nil })
		requirePhase(t, db, id, "WAITING!")
	})

	t.Run("HasTheRequestedIsolation", func(t *testing.T) {
		t.Parallel()
		db := lone(t, modelstest.DSN(t))
		var level, readOnly string

		require.NoError(t, db.RunInTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
			func(ctx context.Context, tx bun.Tx) error {
				return tx.NewRaw("SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')").Scan(ctx, &level,
					&readOnly)
			}))

		require.Equal(t, "repeatable read on", level+" "+readOnly)
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()
		db := lone(t, modelstest.DSN(t))
		worker, all := liveFences(t, db, 1)[0].WorkerID, free(t, db, "workers")
		for _, locked := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())

			err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if locked {
					_, _, err := models.LockPicks(ctx, tx, []models.Pick{{WorkerID: worker}}, 0)
					require.NoError(t, err)
				}
				cancel()
				_, err := postgres.Now(context.Background(), tx)
				return err
			})

			require.Error(t, err)
			testrun.Eventually(t, "every connection is free again", func() bool { return db.Ping() == nil && free(t, db, "workers") == all })
		}
	})
}
