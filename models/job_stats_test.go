package models_test

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

func TestCountStatuses(t *testing.T) {
	t.Parallel()

	db := modelstest.DB(t)
	_, err := db.NewRaw(`
		INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute) VALUES (md5('a')::uuid, 'a', 'PRO', 1, 1, 1)`).Exec(t.Context())
	require.NoError(t, err)
	_, err = db.NewRaw(`
		INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, failure_class, completed_at)
		SELECT gen_random_uuid(), md5('a')::uuid, 'video.generate', 'testcard', CASE WHEN n <= 3000 THEN 'COMPLETED' ELSE 'FAILED' END,
			'PRO', 'PRO', '{}', 1, 1, 1, 'TRANSIENT', now() FROM generate_series(1, 3040) n`).Exec(t.Context())
	require.NoError(t, err)
	count := func(limit int) map[models.JobStatus]int {
		counts, err := joblist.CountStatuses(t.Context(), db, limit)
		require.NoError(t, err)
		require.Len(t, counts, len(models.JobStatuses))
		all := map[models.JobStatus]int{}
		for _, c := range counts {
			if c.Jobs > 0 {
				all[c.Status] = c.Jobs
			}
		}
		return all
	}

	require.Equal(t, map[models.JobStatus]int{"COMPLETED": 3000, "FAILED": 40}, count(5000))
	// The table is not analyzed yet, so beyond the limit there is no estimate.
	require.Equal(t, map[models.JobStatus]int{"COMPLETED": 101, "FAILED": 40}, count(100))
	_, err = db.NewRaw("VACUUM ANALYZE jobs").Exec(t.Context())
	require.NoError(t, err)
	estimated := count(100)
	require.InDelta(t, 3000, estimated["COMPLETED"], 30)
	require.Equal(t, 40, estimated["FAILED"])
}
