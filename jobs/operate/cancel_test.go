package operate_test

import (
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

func TestCancel(t *testing.T) {
	t.Parallel()

	t.Run("EndsAWaitingJobAtOnce", func(t *testing.T) {
		t.Parallel()

		s, scheduled, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTransient})
		require.NoError(t, err)
		queued := s.Submit(t)

		for _, job := range []*models.Job{scheduled, queued} {
			cancelled, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
			require.NoError(t, err)
			require.Equal(t, models.JobCancelled, cancelled.Status)
			require.Equal(t, string(s.Client.KeyID), cancelled.CancelBy)
			require.False(t, cancelled.CancelStoppedAt.IsZero())
		}

		require.Nil(t, jobstest.LeaseNext(t, s, worker))
		s.RequireInvariants(t)
	})

	t.Run("IsDeliveredByTheNextHeartbeat", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)

		cancelled, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)

		require.NoError(t, err)
		require.Equal(t, models.JobRunning, cancelled.Status)
		require.True(t, s.Reload(t, job.ID).CancelDeliveredAt.IsZero())
		answer, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		require.Equal(t, lease.DirectCancel, answer.Directive.Action)
		require.Equal(t, job.ID, answer.Directive.JobID)
		delivered := s.Reload(t, job.ID).CancelDeliveredAt
		require.False(t, delivered.IsZero())
		_, err = s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		require.Equal(t, delivered, s.Reload(t, job.ID).CancelDeliveredAt, "the first delivery counts")
	})

	for _, verb := range []string{"Heartbeat", "ReportProgress", "CommitCheckpoint", "CommitArtifact", "RejectCheckpoint", "StoreHandle"} {
		t.Run("IsDeliveredBy"+verb, func(t *testing.T) {
			t.Parallel()

			s, job, worker, fence := jobstest.Leased(t)
			o := jobstest.UploadAll(t, s, worker, fence)
			_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
			require.NoError(t, err)

			require.NoError(t, jobstest.FencedVerbs[verb](t, s, worker, fence, o))

			require.False(t, s.Reload(t, job.ID).CancelDeliveredAt.IsZero())
		})
	}

	for name, end := range map[string]func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, o jobstest.Uploads){
		"Complete": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, o jobstest.Uploads) {
			jobstest.RequireCode(t, jobstest.FencedVerbs["Complete"](t, s, p, f, o), apierror.CodeConflict)
		},
		"Fail": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, o jobstest.Uploads) {
			require.NoError(t, jobstest.FencedVerbs["Fail"](t, s, p, f, o))
		},
		"Release": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, f lease.Fence, o jobstest.Uploads) {
			require.NoError(t, jobstest.FencedVerbs["Release"](t, s, p, f, o))
		},
		"Reap": func(t *testing.T, s *jobstest.Stack, _ jobs.Principal, f lease.Fence, _ jobstest.Uploads) {
			s.ExpireLease(t, f.AttemptID)
			reaped, err := s.Reaper.Reap(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, reaped)
		},
		"Terminate": func(t *testing.T, s *jobstest.Stack, p jobs.Principal, _ lease.Fence, _ jobstest.Uploads) {
			_, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, p.WorkerID)
			require.NoError(t, err)
		},
		"RegisterAgain": func(t *testing.T, s *jobstest.Stack, _ jobs.Principal, _ lease.Fence, _ jobstest.Uploads) {
			s.Worker(t, "one")
		},
	} {
		t.Run("EndsTheJobAsCancelledIfItsAttemptEndsBy"+name, func(t *testing.T) {
			t.Parallel()

			s, job, worker, fence := jobstest.Leased(t)
			o := jobstest.UploadAll(t, s, worker, fence)
			_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
			require.NoError(t, err)

			end(t, s, worker, fence, o)

			stored := s.Reload(t, job.ID)
			require.Equal(t, models.JobCancelled, stored.Status)
			require.False(t, stored.CancelStoppedAt.IsZero())
			require.Equal(t, 1, lo.Count(jobstest.EventTypes(t, s, job.ID), models.EventCancelRequested))
			attempt, err := models.GetAttempt(t.Context(), s.DB, fence.AttemptID)
			require.NoError(t, err)
			require.Equal(t, models.AttemptCancelled, attempt.Status)
			s.RequireInvariants(t)
		})
	}

	t.Run("CanBeRepeated", func(t *testing.T) {
		t.Parallel()

		s, held, _, _ := jobstest.Leased(t)
		waiting := s.Submit(t)
		for _, job := range []*models.Job{held, waiting} {
			_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
			require.NoError(t, err)
		}
		before := s.Dump(t)

		for _, job := range []*models.Job{held, waiting} {
			again, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
			require.NoError(t, err)
			require.Equal(t, job.ID, again.ID)
		}
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("HidesJobsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		before := s.Dump(t)

		for _, id := range []models.JobID{job.ID, models.NewJobID(), "job_1", "", models.JobID(models.NewWorkerID())} {
			_, err := s.Canceller.Cancel(t.Context(), stranger, id)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			require.Equal(t, "There is no such job.", err.Error(), "a foreign id and an unknown one are told alike")
		}
		_, err := s.Canceller.Cancel(t.Context(), s.Enrolment, job.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		require.Equal(t, before, s.Dump(t))
		_, err = s.Canceller.Cancel(t.Context(), s.Admin, job.ID)
		require.NoError(t, err, "an operator may")
	})
}
