package operate_test

import (
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// failedJob returns a job that failed for good, with a checkpoint.
func failedJob(t *testing.T) (*jobstest.Stack, *models.Job, jobs.Principal) {
	t.Helper()
	s, job, worker, fence := jobstest.Leased(t)
	state := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("state"))
	_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: state, Step: 3, Percent: 30})
	require.NoError(t, err)
	_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "No.",
		ErrorDetail: "at line 7"})
	require.NoError(t, err)
	return s, s.Reload(t, job.ID), worker
}

func TestRetry(t *testing.T) {
	t.Parallel()

	t.Run("StartsANewRunFromTheNewestCheckpoint", func(t *testing.T) {
		t.Parallel()

		s, job, worker := failedJob(t)
		require.Equal(t, models.JobFailed, job.Status)

		again, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)

		require.NoError(t, err)
		require.Equal(t, models.JobQueued, again.Status)
		require.Equal(t, 2, again.Run)
		require.Zero(t, again.Failures)
		require.Empty(t, again.FailureClass)
		require.Equal(t, job.AttemptNo, again.AttemptNo)
		s.RequireInvariants(t)
		granted, fence := s.Lease(t, worker)
		require.Equal(t, job.AttemptNo+1, granted.Attempt.AttemptNo)
		require.Equal(t, 2, granted.Attempt.Run)
		require.Len(t, granted.Checkpoints, 1)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		require.Equal(t, models.JobCompleted, end.Job.Status)
		var letters []string
		require.NoError(t, s.DB.NewRaw("SELECT resolution FROM dead_letters WHERE job_id = ?", job.ID).Scan(t.Context(), &letters))
		require.Equal(t, []string{"RETRIED"}, letters)
		attempts, err := s.Edges(t, job.ID).Attempts(t.Context())
		require.NoError(t, err)
		require.Equal(t, "at line 7", attempts[0].ErrorDetail)
		s.RequireInvariants(t)
	})

	t.Run("StartsFromScratchOnRequest", func(t *testing.T) {
		t.Parallel()

		s, job, worker := failedJob(t)

		again, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, true)

		require.NoError(t, err)
		require.Empty(t, again.LatestCheckpointID)
		lease, _ := s.Lease(t, worker)
		require.Empty(t, lease.Checkpoints)
	})

	t.Run("RunsACancelledJobAgain", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		again, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)

		require.NoError(t, err)
		require.Equal(t, models.JobQueued, again.Status)
		require.True(t, again.CancelRequestedAt.IsZero())
		require.Equal(t, models.JobCompleted, jobstest.CompleteNext(t, s, s.Worker(t, "one")).Status)
		s.RequireInvariants(t)
	})

	t.Run("RefusesUnfinishedJobsAndJobsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()

		s, job, worker := failedJob(t)
		s.Submit(t)
		done := jobstest.CompleteNext(t, s, worker)
		waiting := s.Submit(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		before := s.Dump(t)

		for id, code := range map[models.JobID]apierror.Code{
			done.ID: apierror.CodeConflict, waiting.ID: apierror.CodeConflict, models.NewJobID(): apierror.CodeNotFound,
			"job_x": apierror.CodeNotFound,
		} {
			_, err := s.Retrier.Retry(t.Context(), s.Client, id, false)
			jobstest.RequireCode(t, err, code)
		}
		_, err := s.Retrier.Retry(t.Context(), stranger, job.ID, false)

		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		require.Equal(t, before, s.Dump(t))
		s.Exec(t, "UPDATE accounts SET max_queued = 1 WHERE id = ?", s.Account.ID)
		_, err = s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
	})

	t.Run("StartsOneRunForConcurrentCalls", func(t *testing.T) {
		t.Parallel()

		s, job, _ := failedJob(t)
		errs := make([]error, 10)
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() { _, errs[i] = s.Retrier.Retry(t.Context(), s.Client, job.ID, false) })
		}
		calls.Wait()

		opened := 0
		for _, err := range errs {
			if err == nil {
				opened++
				continue
			}
			jobstest.RequireCode(t, err, apierror.CodeConflict)
		}
		require.Equal(t, 1, opened)
		require.Equal(t, 2, s.Reload(t, job.ID).Run)
		s.RequireInvariants(t)
	})

	t.Run("WaitsForItsParentsAgain", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		parent := s.Submit(t)
		child := jobstest.SubmitAfter(t, s, parent.ID)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, parent.ID)
		require.NoError(t, err)
		require.Equal(t, models.JobFailed, s.Reload(t, child.ID).Status)
		_, err = s.Retrier.Retry(t.Context(), s.Client, child.ID, false)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		_, err = s.Retrier.Retry(t.Context(), s.Client, parent.ID, false)
		require.NoError(t, err)

		again, err := s.Retrier.Retry(t.Context(), s.Client, child.ID, false)

		require.NoError(t, err)
		require.Equal(t, models.JobBlocked, again.Status)
		require.Equal(t, parent.ID, jobstest.CompleteNext(t, s, worker).ID)
		require.Equal(t, child.ID, jobstest.CompleteNext(t, s, worker).ID)
		s.RequireInvariants(t)
	})
}

func TestFailure(t *testing.T) {
	t.Parallel()

	t.Run("FollowsTheClientsRetryPolicy", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) {
			in.Retry = &models.RetryPolicy{Backoff: models.BackoffFixed, InitialDelaySeconds: new(100.0)}
		})
		_, fence := s.Lease(t, worker)

		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTransient, Message: "a hiccup"})

		require.NoError(t, err)
		stored := s.Reload(t, job.ID)
		require.Equal(t, models.JobScheduled, stored.Status)
		now, err := postgres.Now(t.Context(), s.DB)
		require.NoError(t, err)
		require.WithinRange(t, stored.RunAt, now.Add(90*time.Second), now.Add(106*time.Second))
		require.Equal(t, worker.WorkerID, stored.AvoidWorkerID)
	})

	t.Run("RetriesADefectiveVideoOnceForEachCause", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		s.Exec(t, "UPDATE jobs SET max_attempts = 10 WHERE id = ?", job.ID)
		state := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("state"))
		_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: state, Step: 1, Percent: 10})
		require.NoError(t, err)
		refuse := func(message string) *models.Job {
			_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailDefectiveResult, Message: message})
			require.NoError(t, err)
			stored := s.Reload(t, job.ID)
			if stored.Status == models.JobQueued {
				var lease *lease.Lease
				lease, fence = s.Lease(t, worker)
				require.Len(t, lease.Checkpoints, 1, "it must resume from the checkpoint")
			}
			return stored
		}

		first := refuse("BLACK: 100 % of the frames are black: the mean brightness is 0.0 of 255.")
		other := refuse("FROZEN: The same picture is shown for 2.10 s, from 1.90 s to 4.00 s, of 4.00 s.")
		again := refuse("BLACK: 97 % of the frames are black: the mean brightness is 1.3 of 255.")

		require.Equal(t, models.JobQueued, first.Status)
		require.Equal(t, worker.WorkerID, first.AvoidWorkerID)
		require.Equal(t, models.JobQueued, other.Status, "another cause has a retry of its own")
		require.Equal(t, models.JobFailed, again.Status)
		require.Equal(t, models.FailDefectiveResult, again.FailureClass)
		require.Contains(t, again.FailureReason, "97 % of the frames are black")
		attempts, err := s.Edges(t, job.ID).Attempts(t.Context())
		require.NoError(t, err)
		require.Len(t, attempts, 3)
		for _, a := range attempts {
			require.Equal(t, a.GPUSeconds, a.WastedGPUSeconds, "the account does not pay for a defective video")
		}
		s.RequireInvariants(t)
	})

	t.Run("AvoidsACheckpointAfterWhichTheRuntimeCrashed", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		for step := 1; step <= 2; step++ {
			state := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte{byte(step)})
			_, err := s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: state, Step: step, Percent: 10})
			require.NoError(t, err)
		}
		_, err := s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		granted, fence := s.Lease(t, worker)
		_, err = s.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{
			Progress: models.Progress{Phase: models.PhaseResuming}, ResumedFrom: granted.Checkpoints[0].ID,
		})
		require.NoError(t, err)

		_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailModelCrash, Message: "NaN"})

		require.NoError(t, err)
		require.Equal(t, granted.Checkpoints[1].ID, s.Reload(t, job.ID).LatestCheckpointID)
		again, _ := s.Lease(t, worker)
		require.Len(t, again.Checkpoints, 1)
		require.Equal(t, granted.Checkpoints[1].ID, again.Checkpoints[0].ID)
		s.RequireInvariants(t)
	})

	t.Run("KeepsALostWorkerDraining", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		_, err := s.Fleet.DrainWorker(t.Context(), s.Admin, worker.WorkerID, time.Minute)
		require.NoError(t, err)
		s.ExpireLease(t, fence.AttemptID)
		_, err = s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		require.Equal(t, models.WorkerLost, jobstest.WorkerStatus(t, s, worker.WorkerID))

		require.Nil(t, jobstest.LeaseNext(t, s, worker))

		require.Equal(t, models.WorkerDraining, jobstest.WorkerStatus(t, s, worker.WorkerID))
	})
}
