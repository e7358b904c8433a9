package change_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// refuseCommits makes every commit fail that changed a job or an attempt.
func refuseCommits(t *testing.T, s *jobstest.Stack) {
	t.Helper()
	s.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$`)
	for _, table := range []string{"jobs", "job_attempts"} {
		s.Exec(t, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON `+table+`
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	}
}

// dumpJobs is Dump without the workers' heartbeat times, which belong to no job.
func dumpJobs(t *testing.T, s *jobstest.Stack) map[string]string {
	t.Helper()
	all := s.Dump(t)
	delete(all, "workers")
	return all
}

func TestChange(t *testing.T) {
	t.Parallel()

	t.Run("LeavesNoTraceIfTheCommitFails", func(t *testing.T) {
		t.Parallel()

		s, held, worker, fence := jobstest.Leased(t)
		o := jobstest.UploadAll(t, s, worker, fence)
		waiting := s.Submit(t)
		idle := s.Worker(t, "two")
		refuseCommits(t, s)
		before := dumpJobs(t, s)

		calls := map[string]func() error{
			"submit": func() error {
				_, _, err := s.Submitter.Submit(t.Context(), s.Client, jobstest.Submission())
				return err
			},
			"lease": func() error {
				_, _, err := s.Leaser.Lease(t.Context(), idle, lease.LeaseCall{WorkerID: idle.WorkerID})
				return err
			},
			"cancel a waiting job": func() error {
				_, err := s.Canceller.Cancel(t.Context(), s.Client, waiting.ID)
				return err
			},
			"cancel a leased job": func() error {
				_, err := s.Canceller.Cancel(t.Context(), s.Client, held.ID)
				return err
			},
			"deregister": func() error {
				_, err := s.Registrar.Deregister(t.Context(), worker, worker.WorkerID)
				return err
			},
		}
		for verb, call := range jobstest.FencedVerbs {
			if verb != "Heartbeat" { // it changes no job
				calls[verb] = func() error { return call(t, s, worker, fence, o) }
			}
		}
		for verb, call := range calls {
			err := call()

			require.ErrorContains(t, err, "refused", verb)
			require.Equal(t, before, dumpJobs(t, s), verb)
		}

		s.Exec(t, "DROP TRIGGER refuse ON job_attempts")
		s.ExpireLease(t, fence.AttemptID)
		before = dumpJobs(t, s)
		_, err := s.Reaper.Reap(t.Context())
		require.ErrorContains(t, err, "refused")
		require.Equal(t, before, dumpJobs(t, s), "reap")
	})

	t.Run("HasTheTimeAtWhichTheJobWasLocked", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		holder := jobstest.Begin(t, s)
		_, err := models.LockJob(t.Context(), holder, job.ID)
		require.NoError(t, err)
		cancelled := make(chan error, 1)
		go func() {
			_, err := s.Canceller.Cancel(context.Background(), s.Client, job.ID)
			cancelled <- err
		}()
		s.WaitForLocks(t, 1)
		var released time.Time
		require.NoError(t, s.DB.NewRaw("SELECT clock_timestamp()").Scan(t.Context(), &released))
		require.NoError(t, holder.Commit())

		require.NoError(t, <-cancelled)

		require.True(t, s.Reload(t, job.ID).CancelRequestedAt.After(released), "it is of the time at which it began to wait")
	})
}
