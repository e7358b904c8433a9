package pass_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestPromote(t *testing.T) {
	t.Parallel()

	t.Run("MovesUpOneLaneAtATimeAndNeverIntoCritical", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
		own := s.Submit(t)
		wait := func(d time.Duration) models.Tier {
			s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - make_interval(secs => ?)", d.Seconds())
			_, err := s.Promoter.Promote(t.Context())
			require.NoError(t, err)
			s.RequireInvariants(t)
			return s.Reload(t, job.ID).Lane
		}

		require.Equal(t, models.TierBatch, wait(6*time.Hour-time.Minute))
		require.Equal(t, models.TierFree, wait(6*time.Hour+time.Minute))
		require.Equal(t, models.TierFree, wait(6*time.Hour+14*time.Minute))
		require.Equal(t, models.TierPro, wait(6*time.Hour+16*time.Minute))
		require.Equal(t, models.TierEnterprise, wait(6*time.Hour+26*time.Minute))
		require.Equal(t, models.TierEnterprise, wait(99*time.Hour))
		require.Equal(t, models.TierBatch, s.Reload(t, job.ID).Tier)
		require.Equal(t, models.TierEnterprise, s.Reload(t, own.ID).Lane)
		n, err := s.Promoter.Promote(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})

	for name, model := range map[string]string{"Lane": "", "ModelInALane": "testcard"} {
		t.Run("KeepsJobsInAPaused"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			worker := s.Worker(t, "one")
			job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierPro })
			_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, model, "")
			require.NoError(t, err)
			s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '1 hour'")

			n, err := s.Promoter.Promote(t.Context())
			require.NoError(t, err)
			require.Zero(t, n)
			require.Nil(t, jobstest.LeaseNext(t, s, worker))

			_, err = s.Operator.ResumeQueue(t.Context(), s.Admin, models.TierPro, model)
			require.NoError(t, err)
			n, err = s.Promoter.Promote(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, models.TierEnterprise, s.Reload(t, job.ID).Lane)
		})
	}
}
