package reports_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/reports"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestMain(m *testing.M) { modelstest.Main(m.Run) }

// ended inserts n jobs of a type that ended with a status after some attempts, and a dead letter for each that failed.
func ended(t *testing.T, db bun.IDB, n int, kind string, status models.JobStatus, attempts int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute) VALUES (md5('a')::uuid, 'a', 'PRO', 9, 9, 9) ON CONFLICT DO NOTHING`,
		`INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, attempt_no,
			queued_at, completed_at, failure_class)
		SELECT gen_random_uuid(), md5('a')::uuid, ?1, 'testcard', ?2, 'PRO', 'PRO', '{}', 3, 600, 5, ?3, now(), clock_timestamp(),
			CASE WHEN ?2 = 'FAILED' THEN 'POISON' END FROM generate_series(1, ?0)`,
		`INSERT INTO dead_letters (id, job_id, run, model, failure_class, reason, fingerprint, attempts, created_at)
		SELECT gen_random_uuid(), id, run, model, failure_class, 'x', 'f', attempt_no, now() FROM jobs WHERE status = 'FAILED' ON CONFLICT DO NOTHING`,
	} {
		_, err := db.NewRaw(statement, n, kind, status, attempts).Exec(t.Context())
		require.NoError(t, err)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()

	db := modelstest.DB(t)
	ended(t, db, 3, "video.generate", models.JobFailed, 3)
	ended(t, db, 1, "image.generate", models.JobFailed, 3)
	ended(t, db, 2, "video.generate", models.JobCompleted, 1)
	ended(t, db, 2, "video.generate", models.JobCompleted, 4)
	ended(t, db, 1, "workflow.join", models.JobCompleted, 0)

	letters, err := reports.CountDeadLetters(t.Context(), db)
	require.NoError(t, err)
	require.Len(t, letters, 2)
	require.Equal(t, "video.generate", letters[0].Type)
	require.Equal(t, 3, letters[0].Count)
	require.EqualValues(t, "POISON", letters[0].FailureClass)
	require.WithinDuration(t, time.Now(), letters[0].OldestAt, time.Hour)

	retries, err := reports.CountRetries(t.Context(), db, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Len(t, retries, 2)
	require.Equal(t, "video.generate", retries[0].Type)
	require.Equal(t, []int{4, 2, 6, 3}, []int{retries[0].Completed, retries[0].Retried, retries[0].Retries, retries[0].Most})
	require.InDelta(t, 1.5, retries[0].Mean(), 0)
	require.Zero(t, retries[1].Mean(), "no worker ran it")
	none, err := reports.CountRetries(t.Context(), db, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Empty(t, none)

	kept, err := reports.ListKept(t.Context(), db)
	require.NoError(t, err)
	require.Len(t, kept, len(reports.Kinds))
	for i, k := range kept {
		require.Equal(t, reports.Kinds[i], k.Kind)
		require.True(t, k.Exact(), k.Kind)
		require.Equal(t, k.Rows == 0, k.OldestAt.IsZero(), k.Kind)
	}
	require.EqualValues(t, 9, kept[0].Rows)
	require.EqualValues(t, 4, kept[2].Rows, "dead letters")
}

// TestReports_ReadFewRowsOfManyJobs fails if a report reads all jobs that have ended.
func TestReports_ReadFewRowsOfManyJobs(t *testing.T) {
	t.Parallel()

	db := modelstest.DB(t)
	modelstest.FillWith(t, db, 5, 1000, 40_000, 10)
	last := &modelstest.LastQuery{}
	watched := db.WithQueryHook(last)

	_, err := reports.CountRetries(t.Context(), watched, time.Now().AddDate(-1, 0, 0))
	require.NoError(t, err)
	plan := modelstest.Explain(t, db, last.Text, "jobs")
	require.LessOrEqual(t, plan.Rows, 2*reports.Examined)
	_, err = reports.CountDeadLetters(t.Context(), watched)
	require.NoError(t, err)
	require.LessOrEqual(t, modelstest.Explain(t, db, last.Text, "jobs", "dead_letters").Rows, 3*reports.Examined)
	kept, err := reports.ListKept(t.Context(), watched)
	require.NoError(t, err)
	require.False(t, kept[0].Exact())
	require.InDelta(t, 40_000, kept[0].Rows, 8000)
	require.LessOrEqual(t, modelstest.Explain(t, db, last.Text, "jobs").Rows, 2*reports.Examined)
}
