package models_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestUpdate(t *testing.T) {
	t.Parallel()

	t.Run("FindsOnlyTheRowThatIsWhereItShouldBe", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fill(t, db)
		var attempt models.Attempt
		var job models.Job
		var worker models.Worker
		require.NoError(t, db.NewSelect().Model(&attempt).Where("a.ended_at IS NULL").Limit(1).Scan(t.Context()))
		require.NoError(t, db.NewSelect().Model(&job).Where("j.status = 'QUEUED'").Limit(1).Scan(t.Context()))
		require.NoError(t, db.NewSelect().Model(&worker).Where("w.status = 'BUSY'").Limit(1).Scan(t.Context()))
		stale := attempt
		stale.FencingToken = models.NewFencingToken()

		for name, update := range map[string]func(tx bun.Tx) error{
			"a job in another state":      func(tx bun.Tx) error { return models.UpdateJob(t.Context(), tx, &job, models.JobRunning) },
			"a worker in another state":   func(tx bun.Tx) error { return models.UpdateWorker(t.Context(), tx, &worker, models.WorkerIdle) },
			"an attempt of another token": func(tx bun.Tx) error { return models.UpdateAttempt(t.Context(), tx, &stale) },
			"a heartbeat of another token": func(tx bun.Tx) error {
				_, err := models.ExtendLease(t.Context(), tx, attempt.WorkerID, attempt.ID, stale.FencingToken, 0)
				return err
			},
			"a heartbeat of another worker": func(tx bun.Tx) error {
				_, err := models.ExtendLease(t.Context(), tx, models.NewWorkerID(), attempt.ID, attempt.FencingToken, 0)
				return err
			},
		} {
			err := db.RunInTx(t.Context(), nil, func(_ context.Context, tx bun.Tx) error { return update(tx) })

			require.ErrorIs(t, err, sql.ErrNoRows, name)
		}
	})
}
