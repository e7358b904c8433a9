package lease_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// updates counts the updates of a table's rows, and those that wrote no index.
type updates struct {
	All int `bun:"n_tup_upd"`
	HOT int `bun:"n_tup_hot_upd"`
}

// updatesOf reads the counts over the connection that made the updates, whose own count is
// included at once.
func updatesOf(t *testing.T, db *bun.DB) map[string]updates {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "SELECT pg_stat_force_next_flush()")
	require.NoError(t, err)
	var rows []struct {
		Name string `bun:"relname"`
		updates
	}
	require.NoError(t, db.NewRaw("SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables").Scan(t.Context(), &rows))
	of := map[string]updates{}
	for _, row := range rows {
		of[row.Name] = row.updates
	}
	return of
}

// requireHOT asserts that a table had at least n updates, and that nearly all wrote no index. If an
// index contained a column that they set, all would write it. The tolerance is for parallel tests,
// whose transactions keep dead rows in the page for a moment.
func requireHOT(t *testing.T, table string, before, after updates, n int) {
	t.Helper()
	all, hot := after.All-before.All, after.HOT-before.HOT
	require.GreaterOrEqual(t, all, n, table)
	require.GreaterOrEqual(t, hot, all*90/100, "%s: %d of %d updates wrote no index", table, hot, all)
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()

	const n = 300
	for name, c := range map[string]struct {
		tables []string
		beat   func(s *jobstest.Stack, worker jobs.Principal, f lease.Fence, i int) error
	}{
		"WritesNoIndex": {[]string{"job_attempts", "workers", "worker_gpus"},
			func(s *jobstest.Stack, worker jobs.Principal, f lease.Fence, i int) error {
				_, err := s.Attempts.Heartbeat(t.Context(), worker, f, []lease.GPUSample{{Utilization: new(float64(i%100) / 100)}})
				return err
			}},
		"WritesNoIndexWithProgress": {[]string{"job_attempts", "workers", "jobs"},
			func(s *jobstest.Stack, worker jobs.Principal, f lease.Fence, i int) error {
				_, err := s.Attempts.ReportProgress(t.Context(), worker, f, lease.ProgressReport{Progress: models.Progress{
					Phase: models.PhaseRendering, Percent: float64(i % 100), Step: &i, Message: "step by step",
				}})
				return err
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			db, done, err := postgres.Open(t.Context(), modelstest.DSN(t), 1)
			require.NoError(t, err)
			t.Cleanup(done)
			s := jobstest.Over(t, db)
			s.Submit(t)
			worker := s.Worker(t, "a")
			_, fence := s.Lease(t, worker)
			_, err = s.Attempts.Heartbeat(t.Context(), worker, fence, []lease.GPUSample{{}}) // starts the job
			require.NoError(t, err)
			before := updatesOf(t, db)

			for i := range n {
				require.NoError(t, c.beat(s, worker, fence, i))
			}

			after := updatesOf(t, db)
			for _, table := range c.tables {
				requireHOT(t, table, before[table], after[table], n)
			}
		})
	}
}

// A worker leases and ends thousands of jobs: the columns that this changes are in none of its
// indexes.
func TestWorkerChanges(t *testing.T) {
	t.Parallel()

	db, done, err := postgres.Open(t.Context(), modelstest.DSN(t), 1)
	require.NoError(t, err)
	t.Cleanup(done)
	s := jobstest.Over(t, db)
	worker := s.Worker(t, "a")
	const n = 50
	before := updatesOf(t, db)["workers"]

	for range n {
		s.Submit(t)
		_, fence := s.Lease(t, worker)
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
	}

	requireHOT(t, "workers", before, updatesOf(t, db)["workers"], 2*n)
}
