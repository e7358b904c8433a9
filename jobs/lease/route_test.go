package lease_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// routed returns a stack with the models a and b, which are like the test card but for their timeout, a job
// that may go on with them, and a worker of all three.
func routed(t *testing.T, shape func(*submit.Submission)) (*jobstest.Stack, *models.Job, jobs.Principal) {
	t.Helper()
	s := jobstest.New(t)
	known := s.Submitter.Catalogue.Current()
	card, err := known.Model("testcard")
	require.NoError(t, err)
	all := known.Models()
	for _, name := range []string{"a", "b"} {
		twin := *card
		twin.Name, twin.TimeoutSeconds = name, 900
		all = append(all, &twin)
	}
	s.Submitter.Catalogue.Replace(catalogue.New(all...))
	job := jobstest.SubmitWith(t, s, func(in *submit.Submission) {
		in.Fallback, in.MaxAttempts = []string{"a", "b"}, new(1)
		if shape != nil {
			shape(in)
		}
	})
	worker := s.Worker(t, "one")
	s.Exec(t, "UPDATE workers SET models = '{testcard,a,b}'")
	return s, job, worker
}

func TestFail_GoesOnWithAnotherModel(t *testing.T) {
	t.Parallel()

	for _, class := range []models.FailureClass{models.FailProvider, models.FailRateLimited, models.FailModelCrash, models.FailTransient,
		models.FailTimeout, models.FailOutOfMemory} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			s, job, worker := routed(t, nil)
			fail := func() *models.Job {
				_, f := s.Lease(t, worker)
				end, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: class, Message: "no luck"})
				require.NoError(t, err)
				s.RequireInvariants(t)
				return end.Job
			}

			failed := fail()
			require.Equal(t, models.JobQueued, failed.Status)
			now := s.Reload(t, job.ID)
			require.Equal(t, "a", now.Model)
			require.Zero(t, now.Failures)
			require.Equal(t, 900, now.TimeoutSeconds)
			require.Len(t, now.Routes, 1)
			require.Equal(t, "testcard a all attempts with testcard failed; the last with "+string(class)+": no luck",
				now.Routes[0].From+" "+now.Routes[0].To+" "+now.Routes[0].Reason)

			fail()
			require.Equal(t, "b", s.Reload(t, job.ID).Model)
			last := fail() // of the flat list nothing is left: no circle
			require.Equal(t, models.JobFailed, last.Status)
			require.Equal(t, class, last.FailureClass)
			require.Len(t, s.Reload(t, job.ID).Routes, 2)
			require.Equal(t, 1, s.Count(t, "dead_letters"))
			require.Equal(t, 3, s.Count(t, "job_attempts"))
		})
	}

	t.Run("WithoutItsSlotAtAProvider", func(t *testing.T) {
		t.Parallel()
		s, job, worker := routed(t, nil)
		s.Exec(t, "INSERT INTO provider_slots (job_id, pool_id) VALUES (?, ?)", job.ID, hosted(t, s, "hosted").ID)
		_, f := s.Lease(t, worker)
		_, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: models.FailTransient, Message: "no luck"})
		require.NoError(t, err)
		require.Equal(t, "a", s.Reload(t, job.ID).Model)
		require.Zero(t, s.Count(t, "provider_slots"))
	})

	t.Run("FromTheBeginning", func(t *testing.T) {
		t.Parallel()
		s, job, worker := routed(t, nil)
		_, f := s.Lease(t, worker)
		jobstest.Checkpoint(t, s, worker, f, 5)
		_, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: models.FailTransient, Message: "no luck"})
		require.NoError(t, err)
		require.Empty(t, s.Reload(t, job.ID).LatestCheckpointID)

		granted, _ := s.Lease(t, worker)
		require.Equal(t, "a", granted.Job.Model)
		require.Empty(t, granted.Job.LatestCheckpointID)
		s.RequireInvariants(t)
	})

	t.Run("NotBeforeItsAttemptsAreUsedUp", func(t *testing.T) {
		t.Parallel()
		s, job, worker := routed(t, func(in *submit.Submission) { in.MaxAttempts = new(2) })
		_, f := s.Lease(t, worker)
		_, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: models.FailTransient, Message: "no luck"})
		require.NoError(t, err)
		require.Equal(t, "testcard", s.Reload(t, job.ID).Model)
	})

	for _, class := range []models.FailureClass{models.FailContentPolicy, models.FailInvalidInput, models.FailBudget, models.FailUnauthorized,
		models.FailDefectiveResult} {
		t.Run("NotFor"+string(class), func(t *testing.T) {
			t.Parallel()
			s, job, worker := routed(t, nil)
			_, f := s.Lease(t, worker)
			end, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: class, Message: "BLACK: no luck"})
			require.NoError(t, err)
			require.Equal(t, models.JobFailed, end.Job.Status)
			require.Equal(t, "testcard", s.Reload(t, job.ID).Model)
		})
	}

	t.Run("NotWhileWorkMayGoOnElsewhere", func(t *testing.T) {
		t.Parallel()
		s, job, worker := routed(t, nil)
		_, f := s.Lease(t, worker)
		_, err := s.Attempts.StoreHandle(t.Context(), worker, f, "paid")
		require.NoError(t, err)
		end, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: models.FailTimeout, Message: "too long"})
		require.NoError(t, err)
		require.Equal(t, models.JobFailed, end.Job.Status)
		require.Equal(t, "testcard", s.Reload(t, job.ID).Model)
	})

	t.Run("NotToAModelThatIsGone", func(t *testing.T) {
		t.Parallel()
		s, job, worker := routed(t, nil)
		left := s.Submitter.Catalogue.Current().Models()
		_, f := s.Lease(t, worker)
		s.Submitter.Catalogue.Replace(catalogue.New(append(left[:len(left)-2:len(left)-2], left[len(left)-1])...))
		_, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: models.FailTransient, Message: "no luck"})
		require.NoError(t, err)
		require.Equal(t, "b", s.Reload(t, job.ID).Model)
		s.RequireInvariants(t)
	})
}
