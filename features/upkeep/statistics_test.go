package upkeep_test

import (
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestAnalyze(t *testing.T) {
	t.Parallel()

	t.Run("AnalyzesATableThatHasDoubled", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		rows := func() (n float64) {
			require.NoError(t, s.DB.NewRaw("SELECT reltuples FROM pg_class WHERE oid = 'job_words'::regclass").Scan(t.Context(), &n))
			return n
		}
		require.Negative(t, rows(), "nobody has analyzed it")
		s.Exec(t, "INSERT INTO job_words SELECT 'w' || i, gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 2000) i")

		testrun.Eventually(t, "the pass sees that the table has grown", func() bool {
			_, err := s.Upkeep.Analyze(t.Context())
			require.NoError(t, err)
			return rows() == 2000
		})

		s.Exec(t, "INSERT INTO job_words SELECT 'v' || i, gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 1000) i")
		s.Exec(t, "SELECT pg_stat_force_next_flush()")
		_, err := s.Upkeep.Analyze(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2000, rows(), "it has not doubled")
	})

	t.Run("AnalyzesJobsWhenTheQueueHasDoubled", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Exec(t, `
			INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, run_at)
			SELECT gen_random_uuid(), ?, 'video.generate', 'testcard', 'SCHEDULED', 'PRO', 'PRO', '{}', 3, 600, 5, now() FROM generate_series(1, 3000)`, s.Account.ID)
		s.Exec(t, "ANALYZE jobs")
		queued := func() (share float64) {
			require.NoError(t, s.DB.NewRaw(`
				SELECT coalesce(max(m.share), 0) FROM pg_stats s, unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS m (status, share)
				WHERE s.tablename = 'jobs' AND s.attname = 'status' AND m.status = 'QUEUED'`).Scan(t.Context(), &share))
			return share
		}
		require.Zero(t, queued())

		n, err := s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3000, n)
		_, err = s.Upkeep.Analyze(t.Context())

		require.NoError(t, err)
		require.EqualValues(t, 1, queued(), "all jobs are queued, and PostgreSQL knows it")
		tables, err := models.ListGrownTables(t.Context(), s.DB)
		require.NoError(t, err)
		require.NotContains(t, tables, "jobs", "once is enough")
	})
}
