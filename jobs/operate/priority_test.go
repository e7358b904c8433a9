package operate_test

import (
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestSetJobPriority(t *testing.T) {
	t.Parallel()

	t.Run("MovesAWaitingJobAtOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		later := s.Submit(t)

		set, err := s.Operator.SetJobPriority(t.Context(), s.Client, later.ID, 5)

		require.NoError(t, err)
		require.Equal(t, 5, set.Priority)
		require.Equal(t, s.Reload(t, later.ID).QueueOrder, set.CurrentOrder(), "the ready index has PostgreSQL's order")
		require.Equal(t, later.ID, jobstest.LeaseNext(t, s, s.Worker(t, "one")).Job.ID)
		s.RequireInvariants(t)
	})

	t.Run("MovesALeasedJobWhenItIsRequeued", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		held := jobstest.LeaseNext(t, s, worker)

		_, err := s.Operator.SetJobPriority(t.Context(), s.Admin, job.ID, -100)
		require.NoError(t, err)
		released, err := s.Attempts.Release(t.Context(), worker, jobstest.FenceOf(held), models.FailPreempted)

		require.NoError(t, err)
		require.Equal(t, s.Reload(t, job.ID).QueueOrder, released.CurrentOrder())
		s.RequireInvariants(t)
	})

	t.Run("RefusesInvalidInput", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		set := func(p jobs.Principal, id models.JobID, priority int) error {
			_, err := s.Operator.SetJobPriority(t.Context(), p, id, priority)
			return err
		}

		jobstest.RequireInvalid(t, set(s.Admin, job.ID, 101), "priority")
		jobstest.RequireCode(t, set(s.Admin, models.NewJobID(), 1), apierror.CodeNotFound)
		jobstest.RequireCode(t, set(s.NewKey(t, s.NewAccount(t, "other", models.TierPro), access.RoleClient), job.ID, 1), apierror.CodeNotFound)
		_, err := s.Canceller.CancelFor(t.Context(), s.Client, job.ID, "  a <b>typo</b> ")
		require.NoError(t, err)
		jobstest.RequireCode(t, set(s.Admin, job.ID, 1), apierror.CodeConflict)
		require.Equal(t, "a <b>typo</b>", s.Reload(t, job.ID).CancelReason)
		_, err = s.Canceller.CancelFor(t.Context(), s.Client, job.ID, "two\nlines")
		jobstest.RequireInvalid(t, err, "reason")
	})
}
