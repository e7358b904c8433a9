package models_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// leftovers fills the database with many rows that the upkeep must not touch yet.
var leftovers = []string{
	`INSERT INTO artifacts (id, job_id, account_id, type, object_key, size_bytes, checksum, content_type, step, percent, review_at)
		SELECT gen_random_uuid(), id, account_id, 'CHECKPOINT', id::text, 1, '', '', 1, 1, now() + interval '1 hour' FROM jobs WHERE status = 'FAILED'`,
	`INSERT INTO uploads (object_key, job_id, attempt_id, type, content_type, size_bytes, checksum)
		SELECT a.id::text, a.job_id, a.id, 'CHECKPOINT', '', 1, '' FROM job_attempts a`,
	`INSERT INTO artifacts (id, account_id, type, object_key, size_bytes, checksum, content_type, review_at)
		SELECT gen_random_uuid(), (SELECT id FROM accounts LIMIT 1), 'INPUT', 'i' || i, 1, '', '', now() + interval '1 hour' FROM generate_series(1, 10000) i`,
	`INSERT INTO uploads (object_key, account_id, artifact_id, type, content_type, size_bytes, checksum)
		SELECT 'i' || i, (SELECT id FROM accounts LIMIT 1), gen_random_uuid(), 'INPUT', '', 1, '' FROM generate_series(1, 10000) i`,
	`INSERT INTO object_deletions (object_key, next_at) SELECT i::text, now() + interval '1 hour' FROM generate_series(1, 10000) i`,
	workersOver,
	`INSERT INTO outbox (kind, payload, created_at) SELECT 'job.ready', '{}', now() FROM generate_series(1, 10000) i`,
	`INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers)
		VALUES (gen_random_uuid(), 'pool', 'p', 'r', 'g', 'SPOT', '{}', 0, 1)`,
	`INSERT INTO scaling_decisions (pool_id, at, from_count, to_count, reason, inputs)
		SELECT id, now(), 0, 1, '', '{}' FROM pools, generate_series(1, 10000)`,
	`INSERT INTO approvals (job_id, run, expires_at, on_timeout, decided_at, decision, decided_by)
		SELECT id, 1, now(), 'reject', now(), 'REJECTED', 'x' FROM jobs`,
	`ANALYZE`,
}

// workersOver inserts ten thousand ended workers.
const workersOver = `INSERT INTO workers (id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, ended_at)
	SELECT gen_random_uuid(), 'p', 'e' || i, 'r', 'g', 'SPOT', '{}', 'TERMINATED', now() FROM generate_series(1, 10000) i`

func TestUpkeepQueries(t *testing.T) {
	t.Parallel()

	t.Run("ReadNoRowsIfThereIsNothingToDo", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.Fill(t, db)
		for _, query := range leftovers {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		last := &modelstest.LastQuery{}
		watched := db.WithQueryHook(last)
		const age, batch = 24 * time.Hour, 10

		for name, run := range map[string]func(ctx context.Context, tx bun.Tx) error{
			"ReadHealth": func(ctx context.Context, tx bun.Tx) error {
				_, err := alerts.ReadHealth(ctx, tx, time.Minute, batch)
				return err
			},
			"LockJobsToReview": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.LockJobsToReview(ctx, tx, batch)
				return err
			},
			"ReviewArtifacts": func(ctx context.Context, tx bun.Tx) error {
				_, _, err := models.ReviewArtifacts(ctx, tx, []models.JobID{models.NewJobID()}, models.KeepArtifacts{}, batch)
				return err
			},
			"DoomUploads": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.DoomUploads(ctx, tx, age, batch)
				return err
			},
			"LockInputsToReview": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.LockInputsToReview(ctx, tx, batch)
				return err
			},
			"DoomInputUploads": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.DoomInputUploads(ctx, tx, age, batch)
				return err
			},
			"DoomOrphans": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.DoomOrphans(ctx, tx, []string{"a", "b", "c"})
				return err
			},
			"ClaimDoomedObjects": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.ClaimDoomedObjects(ctx, tx, batch)
				return err
			},
			"LockJobsOver": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.LockJobsOver(ctx, tx, age, batch)
				return err
			},
			"ListEventPartitionsOver": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.ListEventPartitionsOver(ctx, tx, age)
				return err
			},
			"DeleteOldHints": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.DeleteOldHints(ctx, tx, age, batch)
				return err
			},
			"DeleteOldDecisions": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.DeleteOldDecisions(ctx, tx, age, 1000, batch)
				return err
			},
			"DeleteWorkersOver": func(ctx context.Context, tx bun.Tx) error {
				_, err := models.DeleteWorkersOver(ctx, tx, age, batch)
				return err
			},
		} {
			var query string
			require.NoError(t, watched.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				err := run(ctx, tx)
				query = last.Text
				return err
			}), name)

			plan := modelstest.Explain(t, db, query)

			for _, table := range []string{"jobs", "job_attempts", "artifacts", "uploads", "object_deletions", "workers", "outbox",
				"scaling_decisions"} {
				require.NotContains(t, plan.Text, "Seq Scan on "+table, name)
			}
			require.Zero(t, plan.Rows, "%s reads too much:\n%s", name, plan.Text)
			require.NotContains(t, plan.Text, "using jobs_over on jobs jobs_1", name)
			requireFewPassed(t, name, plan, 100)
		}
	})

	t.Run("SkipTerminatedWorkers", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		for _, query := range []string{workersOver, `ANALYZE`} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}
		last := &modelstest.LastQuery{}
		watched := db.WithQueryHook(last)
		idle := models.WorkerFilter{Status: []models.WorkerStatus{models.WorkerIdle}}

		for name, run := range map[string]func() error{
			"ListSilentWorkers": func() error {
				_, err := models.ListSilentWorkers(t.Context(), watched, time.Minute, 10)
				return err
			},
			"ListOfferedModels": func() error { _, err := models.ListOfferedModels(t.Context(), watched); return err },
			"ListExpectedModels": func() error {
				_, err := models.ListExpectedModels(t.Context(), watched, []string{"testcard", "coral"})
				return err
			},
			"CountFleetLoss": func() error {
				_, err := models.CountFleetLoss(t.Context(), watched, models.NewJobID(), time.Minute, time.Minute)
				return err
			},
			"ListWorkers":          func() error { _, err := models.ListWorkers(t.Context(), watched, idle, "", 10); return err },
			"CountWorkers":         func() error { _, err := models.CountWorkers(t.Context(), watched, idle, 10); return err },
			"CountWorkersByStatus": func() error { _, err := alerts.CountWorkersByStatus(t.Context(), watched); return err },
			"ListCapacity":         func() error { _, err := capacity.ListCapacity(t.Context(), watched, []string{"testcard"}); return err },
			"ListHands":            func() error { _, err := backlog.ListWorkerViews(t.Context(), watched, backlog.Slot{}, 10); return err },
			"CountPoolWorkers":     func() error { _, err := capacity.CountPoolWorkers(t.Context(), watched); return err },
			"GetSurroundings":      func() error { _, err := models.GetSurroundings(t.Context(), watched); return err },
		} {
			require.NoError(t, run(), name)

			plan := modelstest.Explain(t, db, last.Text)

			require.NotContains(t, plan.Text, "Seq Scan on workers", name)
			requireFewPassed(t, name, plan, 1000)
		}
	})
}

// requireFewPassed asserts that a query reads hardly any rows that it does not use.
func requireFewPassed(t *testing.T, name string, plan modelstest.Plan, few int) {
	t.Helper()
	passed := 0
	for _, removed := range regexp.MustCompile(`Rows Removed by Filter: (\d+)`).FindAllStringSubmatch(plan.Text, -1) {
		n, err := strconv.Atoi(removed[1])
		require.NoError(t, err)
		passed += n
	}
	require.LessOrEqual(t, passed, few, "%s passes over too much:\n%s", name, plan.Text)
}
