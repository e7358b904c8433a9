package models_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// TestPreparedReads checks that PostgreSQL keeps a plan of each frequent read. It makes a new plan for
// each of the first five calls, and for all others, too, if that seems cheaper.
func TestPreparedReads(t *testing.T) {
	t.Parallel()

	job, account := models.NewJobID(), models.NewAccountID()
	for name, read := range map[string]func(ctx context.Context, tx bun.Tx) error{
		"GetJob": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.GetJob(ctx, tx, job)
			return err
		},
		"LockJob": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.LockJob(ctx, tx, job)
			return err
		},
		"GetJobs": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.GetJobs(ctx, tx, []models.JobID{job})
			return err
		},
		"GetJobStates": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.GetJobStates(ctx, tx, []models.JobID{job})
			return err
		},
		"ListJobHeads": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.ListJobHeads(ctx, tx, []models.JobID{job})
			return err
		},
		"ListEventsAfter": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.ListEventsAfter(ctx, tx, []models.JobHead{{ID: job}}, 10)
			return err
		},
		"ListAwaited": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.ListAwaited(ctx, tx, []models.JobID{job})
			return err
		},
		"FindTokenOwners": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.FindTokenOwners(ctx, tx, [][]byte{{1}})
			return err
		},
		"FindUploads": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.FindUploads(ctx, tx, []string{"key"})
			return err
		},
		"LookUpObjects": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.LookUpObjects(ctx, tx, []string{"key"})
			return err
		},
		"ReadLanes": func(ctx context.Context, tx bun.Tx) error {
			_, err := models.ReadLanes(ctx, tx)
			return err
		},
		"ListPaused": func(ctx context.Context, tx bun.Tx) error {
			_, err := backlog.ListPaused(ctx, tx, []backlog.Wait{{Lane: models.TierPro, Since: time.Now().Add(-time.Hour), Until: time.Now()}})
			return err
		},
		"GetQueuedJobs": func(ctx context.Context, tx bun.Tx) error {
			_, err := backlog.GetQueuedJobs(ctx, tx, []models.JobID{job})
			return err
		},
		"ListWantingEndpoints": func(ctx context.Context, tx bun.Tx) error {
			_, err := webhooks.ListWantingEndpoints(ctx, tx, []models.AccountID{account}, []string{"job.completed"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			db, done, err := postgres.Open(t.Context(), modelstest.DSN(t), 1)
			require.NoError(t, err)
			t.Cleanup(done)
			modelstest.FillWith(t, db, 3, 40, 5, 5)

			var replanned []string
			err = db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				for range 10 {
					if err := read(ctx, tx); err != nil && !errors.Is(err, sql.ErrNoRows) {
						return err
					}
				}
				return tx.NewRaw("SELECT statement FROM pg_prepared_statements WHERE custom_plans > 5 OR generic_plans < 5").Scan(ctx, &replanned)
			})

			require.NoError(t, err)
			require.Empty(t, replanned)
		})
	}
}
