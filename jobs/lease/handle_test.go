package lease_test

import (
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestStoreHandle(t *testing.T) {
	t.Parallel()

	t.Run("GivesItToTheAttemptAfterEachLoss", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		var next *lease.Lease
		var worker jobs.Principal
		var fence lease.Fence
		again := func(name string) {
			worker = s.Worker(t, name)
			next, fence = s.Lease(t, worker)
		}
		store := func(value string) {
			_, err := s.Attempts.StoreHandle(t.Context(), worker, fence, value)
			require.NoError(t, err)
		}
		again("one")
		require.Empty(t, next.Job.Handle)
		store("prediction 6")
		store("prediction 7 \"ü\\\n{}")
		s.ExpireLease(t, fence.AttemptID)
		_, err := s.Reaper.Reap(t.Context())
		require.NoError(t, err)

		again("two") // after a loss
		require.Equal(t, "prediction 7 \"ü\\\n{}", next.Job.Handle)
		require.True(t, s.Reload(t, job.ID).HasHandle())
		_, err = s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)

		again("three") // after a preemption
		require.Equal(t, "prediction 7 \"ü\\\n{}", next.Job.Handle)
		require.Zero(t, s.Reload(t, job.ID).WastedGPUSeconds, "the next attempt adopts the work")
		_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailModelCrash, Message: "the poll failed",
			RetryAfterSeconds: new(0)})
		require.NoError(t, err)
		require.True(t, s.Reload(t, job.ID).HasHandle(), "after a failure")
		require.Positive(t, s.Reload(t, job.ID).WastedGPUSeconds)
		s.RequireInvariants(t)
	})

	t.Run("IsClearedByAnEmptyOne", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		for _, value := range []string{"prediction 7", ""} {
			_, err := s.Attempts.StoreHandle(t.Context(), worker, fence, value)
			require.NoError(t, err)
			require.Equal(t, value, s.Reload(t, job.ID).Handle)
		}
	})

	for name, end := range map[string]func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, id models.JobID) error{
		"Complete": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, _ models.JobID) error {
			o := jobstest.UploadAll(t, s, p, f)
			return jobstest.FencedVerbs["Complete"](t, s, p, f, o)
		},
		"FailForGood": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, id models.JobID) error {
			_, err := s.Attempts.Fail(t.Context(), p, f, lease.Failure{Class: models.FailContentPolicy, Message: "refused"})
			require.NoError(t, err)
			require.False(t, s.Reload(t, id).HasHandle())
			_, err = s.Retrier.Retry(t.Context(), s.Client, id, false)
			return err
		},
		"Cancel": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, id models.JobID) error {
			_, err := s.Canceller.Cancel(t.Context(), s.Client, id)
			require.NoError(t, err)
			return jobstest.FencedVerbs["Release"](t, s, p, f, jobstest.Uploads{})
		},
		// The work that it names made a bad video.
		"ADefectiveVideo": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, _ models.JobID) error {
			_, err := s.Attempts.Fail(t.Context(), p, f, lease.Failure{Class: models.FailDefectiveResult, Message: "BLACK: all of it"})
			return err
		},
	} {
		t.Run("IsClearedBy"+name, func(t *testing.T) {
			t.Parallel()

			s, job, worker, fence := jobstest.Leased(t)
			_, err := s.Attempts.StoreHandle(t.Context(), worker, fence, "prediction 7")
			require.NoError(t, err)

			require.NoError(t, end(t, s, worker, fence, job.ID))

			require.Empty(t, s.Reload(t, job.ID).Handle)
		})
	}

	t.Run("RefusesWhatIsNoHandle", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.StoreHandle(t.Context(), worker, fence, strings.Repeat("ü", lease.MaxHandleBytes/2))
		require.NoError(t, err)
		before := s.Dump(t)
		for name, value := range map[string]string{
			"TooLong": strings.Repeat("s3cret", 1<<20/6), "OneTooLong": strings.Repeat("s", lease.MaxHandleBytes+1),
			"NUL": "s3cret\x00", "NotUTF8": "s3cret\xff",
		} {
			_, err := s.Attempts.StoreHandle(t.Context(), worker, fence, value)
			jobstest.RequireInvalid(t, err, "value")
			require.NotContains(t, err.Error(), "s3cret", name)
		}
		require.Equal(t, before, s.Dump(t))
		require.Len(t, s.Reload(t, job.ID).Handle, lease.MaxHandleBytes)
	})
}
