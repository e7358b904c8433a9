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

func TestSetJobTier(t *testing.T) {
	t.Parallel()

	t.Run("MovesAWaitingJobAtOnce", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		client := s.NewKey(t, s.NewAccount(t, "small", models.TierFree), access.RoleClient)
		job := jobstest.SubmitAs(t, s, client, nil)
		s.Submit(t)

		set, err := s.Operator.SetJobTier(t.Context(), s.Admin, job.ID, models.TierCritical)

		require.NoError(t, err)
		require.Equal(t, models.TierCritical, set.Tier)
		require.Equal(t, job.ID, jobstest.LeaseNext(t, s, s.Worker(t, "one")).Job.ID)
		require.Equal(t, []models.JobEventType{models.EventQueued, models.EventQueued, models.EventLeased}, jobstest.EventTypes(t, s, job.ID))
		s.RequireInvariants(t)
	})

	t.Run("MovesALeasedJobWhenItIsRequeued", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		held := jobstest.LeaseNext(t, s, worker)
		_, err := s.Operator.SetJobTier(t.Context(), s.Admin, job.ID, models.TierBatch)
		require.NoError(t, err)
		other := s.Submit(t)

		_, err = s.Attempts.Release(t.Context(), worker, jobstest.FenceOf(held), models.FailPreempted)

		require.NoError(t, err)
		require.Equal(t, models.TierBatch, s.Reload(t, job.ID).Lane)
		require.Equal(t, other.ID, jobstest.LeaseNext(t, s, worker).Job.ID)
		s.RequireInvariants(t)
	})

	t.Run("RefusesInvalidInput", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		set := func(p jobs.Principal, id models.JobID, tier models.Tier) error {
			_, err := s.Operator.SetJobTier(t.Context(), p, id, tier)
			return err
		}

		jobstest.RequireCode(t, set(s.Client, job.ID, models.TierBatch), apierror.CodeForbidden)
		jobstest.RequireCode(t, set(s.Admin, models.NewJobID(), models.TierBatch), apierror.CodeNotFound)
		jobstest.RequireInvalid(t, set(s.Admin, job.ID, "GOLD"), "tier")
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		jobstest.RequireCode(t, set(s.Admin, job.ID, models.TierBatch), apierror.CodeConflict)
	})
}
