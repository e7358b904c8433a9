package submit_test

import (
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestAtMostOnce(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	fail := func(class models.FailureClass) func(*testing.T, jobs.Principal, lease.Fence) {
		return func(t *testing.T, worker jobs.Principal, fence lease.Fence) {
			_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: class, Message: "it broke."})
			require.NoError(t, err)
		}
	}
	release := func(t *testing.T, worker jobs.Principal, fence lease.Fence) {
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
	}
	expire := func(t *testing.T, _ jobs.Principal, fence lease.Fence) {
		s.ExpireLease(t, fence.AttemptID)
		_, err := s.Reaper.Reap(t.Context())
		require.NoError(t, err)
	}
	terminate := func(t *testing.T, worker jobs.Principal, _ lease.Fence) {
		_, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, worker.WorkerID)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		end     func(*testing.T, jobs.Principal, lease.Fence)
		started bool
		class   models.FailureClass
		reason  string // before the sentence that says why it is not repeated; "" if there is none
	}{
		"released":                   {release, true, models.FailPreempted, "its worker was preempted"},
		"released without a sign":    {release, false, models.FailPreempted, "its worker was preempted"},
		"lost":                       {expire, true, models.FailWorkerLost, "its lease ran out"},
		"lost without a sign":        {expire, false, models.FailWorkerLost, "its lease ran out"},
		"terminated":                 {terminate, true, models.FailWorkerLost, "an operator ended its worker"},
		"preempted":                  {fail(models.FailPreempted), true, models.FailPreempted, "it broke"},
		"crashed":                    {fail(models.FailModelCrash), true, models.FailModelCrash, "it broke"},
		"timed out":                  {fail(models.FailTimeout), true, models.FailTimeout, "it broke"},
		"failed for a passing cause": {fail(models.FailTransient), true, models.FailTransient, "it broke"},
		"refused":                    {fail(models.FailContentPolicy), true, models.FailContentPolicy, ""},
	} {
		worker := s.Worker(t, name)
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.AtMostOnce = true })
		require.Equal(t, 1, job.MaxAttempts, name)
		for run := 1; run <= 2; run++ {
			_, fence := s.Lease(t, worker)
			if c.started {
				_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
				require.NoError(t, err, name)
			}

			c.end(t, worker, fence)

			failed := s.Reload(t, job.ID)
			require.Equal(t, models.JobFailed, failed.Status, name)
			require.Equal(t, c.class, failed.FailureClass, name)
			require.Equal(t, run, failed.AttemptNo, name)
			if c.reason == "" {
				require.Equal(t, "it broke.", failed.FailureReason, name)
			} else {
				require.Equal(t, c.reason+". The job is atMostOnce and may have started, so it is not repeated; retryJob runs it again.",
					failed.FailureReason, name)
			}
			if run == 2 {
				break
			}
			_, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
			require.NoError(t, err, "its owner decides anew")
			if name == "terminated" {
				worker = s.Worker(t, "another")
			}
		}
	}
	s.RequireInvariants(t)
}
