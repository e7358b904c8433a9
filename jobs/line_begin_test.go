package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// Claims begin to look where the sweep found an account's first job, and find what comes
// before that since.
func TestLineBegins(t *testing.T) {
	t.Parallel()
	begins := func(t *testing.T, s *jobstest.Stack) (at int64) {
		t.Helper()
		require.NoError(t, s.DB.NewRaw("SELECT begins_at FROM account_lanes WHERE NOT promoted").Scan(t.Context(), &at))
		return at
	}
	sweep := func(t *testing.T, s *jobstest.Stack) {
		t.Helper()
		require.NoError(t, (&jobs.Readier{DB: s.DB, Notifier: s.Notifier}).Sweep(t.Context()))
	}
	next := func(t *testing.T, s *jobstest.Stack, worker jobs.Principal) (models.JobID, jobs.Fence) {
		t.Helper()
		s.Index().Lose()
		lease, fence := s.Lease(t, worker)
		s.RequireInvariants(t)
		return lease.Job.ID, fence
	}

	t.Run("BehindWhatWasLeased", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		a, b := s.Submit(t), s.Submit(t)
		require.Equal(t, a.QueueOrder, begins(t, s), "its first job made the line")
		worker := s.Worker(t, "a")
		id, fence := next(t, s, worker)
		require.Equal(t, a.ID, id)

		sweep(t, s)

		require.Equal(t, b.QueueOrder, begins(t, s))
		_, err := s.Holder.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		id, _ = next(t, s, worker)
		require.Equal(t, a.ID, id, "it is requeued, before all others")
	})

	t.Run("BeforeWhatIsSubmittedWithAHigherPriority", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Submit(t)
		sweep(t, s)
		urgent, _, err := s.Submitter.Submit(t.Context(), s.Client, jobs.Submission{Model: "testcard", Prompt: "now", Priority: 9})
		require.NoError(t, err)

		require.Equal(t, urgent.QueueOrder, begins(t, s))
		id, _ := next(t, s, s.Worker(t, "a"))
		require.Equal(t, urgent.ID, id)
	})
}
