package models_test

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestWrites(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 11, 22, 1, 2, 3, 456789000, time.Local)

	t.Run("WritesEveryKindOfColumn", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		modelstest.Fill(t, db)
		job, worker := new(models.Job), new(models.Worker)
		require.NoError(t, db.NewSelect().Model(job).Where("j.status = 'QUEUED'").Limit(1).Scan(t.Context()))
		require.NoError(t, db.NewSelect().Model(worker).Where("w.status = 'BUSY'").Limit(1).Scan(t.Context()))
		for i, change := range []func(j *models.Job, w *models.Worker){
			func(j *models.Job, w *models.Worker) {
				j.Output, j.RetryPolicy = json.RawMessage(`{"a": "ü\"\\"}`), &models.RetryPolicy{Backoff: models.BackoffFixed,
					MaxDelaySeconds: new(1.5)}
				j.Message, j.Percent, j.Step, j.Requeued, j.StartedAt, j.AvoidWorkerID = "{\"'\\,NULL}\n", 33.25, new(7), true, at, models.NewWorkerID()
				w.WarmModels, w.GPUUtilization, w.TokenHash = []string{"", "NULL", `a"b\c,{d}`, "ü"}, []float64{0, 1e-9, 99.5}, []byte{0, 255, '\\'}
			},
			func(j *models.Job, w *models.Worker) {
				j.Output, j.RetryPolicy = nil, nil
				j.Message, j.Percent, j.Step, j.Requeued, j.StartedAt, j.AvoidWorkerID = "", 0, nil, false, time.Time{}, ""
				w.WarmModels, w.GPUUtilization, w.TokenHash = []string{}, nil, nil
			},
		} {
			wasJob, isJob, wasWorker, isWorker := *job, *job, *worker, *worker
			change(&isJob, &isWorker)
			err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				return (&models.Writes{
					Workers: []models.Changed[models.Worker]{{Was: &wasWorker, Is: &isWorker}},
					Jobs:    []models.Changed[models.Job]{{Was: &wasJob, Is: &isJob}},
				}).Write(ctx, tx)
			})
			require.NoError(t, err, i)

			foundJob, foundWorker := new(models.Job), new(models.Worker)
			require.NoError(t, db.NewSelect().Model(foundJob).Where("j.id = ?", job.ID).Scan(t.Context()))
			require.NoError(t, db.NewSelect().Model(foundWorker).Where("w.id = ?", worker.ID).Scan(t.Context()))
			isJob.QueueOrder = foundJob.QueueOrder // set by PostgreSQL
			require.Equal(t, plain(t, isJob), plain(t, *foundJob), i)
			require.Equal(t, plain(t, isWorker), plain(t, *foundWorker), i)
			job, worker = foundJob, foundWorker
		}
	})

	t.Run("CoversEveryColumnThatMayChange", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile("sql/write.sql")
		require.NoError(t, err)

		for row, fixed := range map[any]string{
			(*models.Worker)(nil): `id pool_id provider provider_instance_id slot gpu_count region zone gpu_type gpu_memory_bytes capacity_class
				models tiers accounts price_per_hour_usd agent_version enrolment_key_id machine created_at
				quarantined_until quarantine_cause quarantine_reason boot_failure`,
			(*models.Attempt)(nil): "id job_id run attempt_no worker_id fencing_token lease_request_id leased_at yield_requested_at yield_to",
			(*models.Job)(nil): `id account_id created_by type model model_version alias queue_order params time_class metadata user_id idempotency_key request_digest
				region require_region callback_url traceparent draft_steps takes_id continues workflow_id at_most_once max_preemptions finish_by max_price_per_hour created_at
				reuse reuse_digest reuse_refs reused_from fallback routes`,
		} {
			table := modelstest.DB(t).Table(reflect.TypeOf(row))
			_, set, _ := strings.Cut(string(text), "UPDATE "+table.Name+" ")
			set, _, _ = strings.Cut(set, "FROM")
			for _, field := range table.Fields {
				saved := strings.Contains(set, " "+field.Name+" = n."+field.Name)
				require.NotEqual(t, slices.Contains(strings.Fields(fixed), field.Name), saved, "%s.%s", table.Name, field.Name)
			}
		}
	})

	t.Run("ReadsARowLikeOtherQueries", func(t *testing.T) {
		t.Parallel()
		db := modelstest.DB(t)
		modelstest.Fill(t, db)
		expected := new(models.Worker)
		require.NoError(t, db.NewSelect().Model(expected).Where("w.status = 'BUSY'").Limit(1).Scan(t.Context()))

		found, err := models.GetWorkers(t.Context(), db, []models.WorkerID{expected.ID, models.NewWorkerID()})

		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, expected, found[0])
	})
}

// plain formats a row for comparison.
func plain(t *testing.T, row any) string {
	t.Helper()
	text, err := json.MarshalIndent(row, "", " ")
	require.NoError(t, err)
	return string(text)
}
