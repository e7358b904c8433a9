package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// A call that waits while its pool changes ends at once, without a job that the pool no longer
// serves: the worker asks again.
func TestPoolChangesEndWaitingCalls(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ before, after []models.Tier }{
		"a lane is removed": {nil, []models.Tier{models.TierBatch}},
		"a lane is added":   {[]models.Tier{models.TierBatch}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			worker, pool := s.Worker(t, "one"), jobstest.AddPool(t, s, 0, 1)
			s.Exec(t, "UPDATE workers SET pool_id = ?", pool.ID)
			change := func(tiers []models.Tier) {
				spec := pool.PoolSpec
				spec.Tiers = tiers
				_, err := s.Pools.Update(t.Context(), s.Admin, pool.ID, spec)
				require.NoError(t, err)
			}
			change(c.before)
			given := make(chan *jobs.Lease, 1)
			go func() {
				got, _, _ := s.Leaser.Lease(t.Context(), worker, jobs.LeaseCall{WorkerID: worker.WorkerID, Wait: jobs.MaxLeaseWait})
				given <- got
			}()
			testrun.Eventually(t, "the call waits", func() bool { return s.Notifier.Waiters.Waiting() == 1 })

			change(c.after)
			require.Nil(t, <-given)

			jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.Tier = models.TierPro })
			require.Equal(t, len(c.after) == 0, jobstest.LeaseNext(t, s, worker) != nil)
		})
	}

	t.Run("a job that comes with the change", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		given := make(chan *jobs.Lease, 1)
		go func() {
			got, _, _ := s.Leaser.Lease(t.Context(), worker, jobs.LeaseCall{WorkerID: worker.WorkerID, Wait: jobs.MaxLeaseWait})
			given <- got
		}()
		testrun.Eventually(t, "the call waits", func() bool { return s.Notifier.Waiters.Waiting() == 1 })

		s.Exec(t, "UPDATE workers SET tiers = '{BATCH}'") // as another process does
		jobstest.SubmitAs(t, s, s.Client, func(in *jobs.Submission) { in.Tier = models.TierPro })

		require.Nil(t, <-given)
	})
}
