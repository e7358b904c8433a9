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

	t.Run("MatchesOnlyTheExpectedState", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.Fill(t, db)
		var attempt models.Attempt
		var job models.Job
		var worker models.Worker
		require.NoError(t, db.NewSelect().Model(&attempt).Where("a.ended_at IS NULL").Limit(1).Scan(t.Context()))
		require.NoError(t, db.NewSelect().Model(&job).Where("j.status = 'QUEUED'").Limit(1).Scan(t.Context()))
		require.NoError(t, db.NewSelect().Model(&worker).Where("w.status = 'BUSY'").Limit(1).Scan(t.Context()))
		stale := attempt
		stale.FencingToken = models.NewFencingToken()

		for name, update := range map[string]func(tx bun.Tx) error{
			"a job in another state": func(tx bun.Tx) error {
				was, is := job, job
				was.Status, is.Run = models.JobRunning, 7
				return (&models.Writes{Jobs: []models.Changed[models.Job]{{Was: &was, Is: &is}}}).Write(t.Context(), tx)
			},
			"a worker in another state": func(tx bun.Tx) error { return models.UpdateWorker(t.Context(), tx, &worker, models.WorkerIdle) },
			"an attempt of another token": func(tx bun.Tx) error {
				is := stale
				is.Counted = !stale.Counted
				return (&models.Writes{Attempts: []*models.Attempt{&is}}).Write(t.Context(), tx)
			},
			"a heartbeat of another token": func(tx bun.Tx) error {
				return extended(t, tx, models.Fence{WorkerID: attempt.WorkerID, AttemptID: attempt.ID, Token: stale.FencingToken})
			},
			"a heartbeat of another worker": func(tx bun.Tx) error {
				return extended(t, tx, models.Fence{WorkerID: models.NewWorkerID(), AttemptID: attempt.ID, Token: attempt.FencingToken})
			},
		} {
			err := db.RunInTx(t.Context(), nil, func(_ context.Context, tx bun.Tx) error { return update(tx) })

			require.ErrorIs(t, err, sql.ErrNoRows, name)
		}
	})
}

// extended extends one lease.
func extended(t *testing.T, tx bun.Tx, hold models.Fence) error {
	t.Helper()
	found, err := models.ExtendLeases(t.Context(), tx, []models.LeaseBeat{{Fence: hold}}, 0, 0, models.Thinning{}, 0)
	if err == nil && len(found) == 0 {
		return sql.ErrNoRows
	}
	return err
}
