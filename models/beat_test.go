package models_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// wholeReads counts how often each table was read as a whole, over the connection that reads
// them, whose own count is included at once.
func wholeReads(t *testing.T, db *bun.DB) map[string]int {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "SELECT pg_stat_force_next_flush()")
	require.NoError(t, err)
	var rows []struct {
		Table string `bun:"relname"`
		Scans int    `bun:"seq_scan"`
	}
	require.NoError(t, db.NewRaw("SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname IN ('workers', 'jobs', 'job_attempts')").Scan(t.Context(), &rows))
	scans := map[string]int{}
	for _, row := range rows {
		scans[row.Table] = row.Scans
	}
	return scans
}

// start makes the live jobs of a database that FillWith filled RUNNING. The statistics still say
// that no attempt is, as those of an installation whose workers have just begun.
func start(t *testing.T, db *bun.DB) {
	t.Helper()
	for _, query := range []string{
		`UPDATE job_attempts SET status = 'LEASED', failure_class = NULL WHERE ended_at IS NULL`,
		`UPDATE jobs j SET status = 'RUNNING', failure_class = NULL, completed_at = NULL, current_attempt_id = a.id
			FROM job_attempts a WHERE a.job_id = j.id AND a.ended_at IS NULL`,
		`ANALYZE`,
		`UPDATE job_attempts SET status = 'RUNNING' WHERE ended_at IS NULL`,
	} {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
}

func TestExtendLeases(t *testing.T) {
	t.Parallel()

	t.Run("ReadsNoTableAsAWhole", func(t *testing.T) {
		t.Parallel()

		db, done, err := postgres.Open(t.Context(), modelstest.DSN(t), 1)
		require.NoError(t, err)
		t.Cleanup(done)
		modelstest.FillWith(t, db, 4, 20, 2000, 1000)
		start(t, db)
		holds := liveFences(t, db, 20)
		before := wholeReads(t, db)

		for range 8 { // PostgreSQL keeps a plan after five
			var beats []models.LeaseBeat
			for _, hold := range holds {
				beats = append(beats, models.LeaseBeat{Fence: hold},
					models.LeaseBeat{Fence: hold, Progress: &models.Progress{Phase: models.PhaseRendering}})
			}
			extended, err := models.ExtendLeases(t.Context(), db, beats, time.Minute, time.Minute, models.Thinning{}, 0)
			require.NoError(t, err)
			require.Len(t, extended, len(holds))
		}

		require.Equal(t, before, wholeReads(t, db))
	})
}
