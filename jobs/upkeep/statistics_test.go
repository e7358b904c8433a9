package upkeep_test

import (
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
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
}
