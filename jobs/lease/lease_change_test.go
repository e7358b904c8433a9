package lease_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
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
			given := make(chan *lease.Lease, 1)
			go func() {
				got, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
				given <- got
			}()
			testrun.Eventually(t, "the call waits", func() bool { return s.Notifier.Waiters.Waiting() == 1 })

			change(c.after)
			require.Nil(t, <-given)

			jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierPro })
			require.Equal(t, len(c.after) == 0, jobstest.LeaseNext(t, s, worker) != nil)
		})
	}

	t.Run("a job that comes with the change", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		given := make(chan *lease.Lease, 1)
		go func() {
			got, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
			given <- got
		}()
		testrun.Eventually(t, "the call waits", func() bool { return s.Notifier.Waiters.Waiting() == 1 })

		s.Exec(t, "UPDATE workers SET tiers = '{BATCH}'") // as another process does
		jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierPro })

		require.Nil(t, <-given)
	})
}

// A wake goes to a call that may have the job, also if one that may not has waited longer.
func TestWakesReachWorkersThatServeTheAccount(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	acme := s.NewAccount(t, "acme", models.TierEnterprise)
	dedicated, open := s.Worker(t, "dedicated"), s.Worker(t, "open")
	s.Exec(t, "UPDATE workers SET accounts = ARRAY[?::uuid] WHERE id = ?", acme.ID, dedicated.WorkerID)
	given := map[models.WorkerID]chan *lease.Lease{}
	for i, worker := range []jobs.Principal{dedicated, open} {
		found := make(chan *lease.Lease, 1)
		given[worker.WorkerID] = found
		go func() {
			got, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
			found <- got
		}()
		testrun.Eventually(t, "the call waits", func() bool { return s.Notifier.Waiters.Waiting() == i+1 })
	}
	clock := testrun.StartQuietClock()

	theirs := s.Submit(t)
	got := <-given[open.WorkerID]
	require.NotNil(t, got)
	require.Equal(t, theirs.ID, got.Job.ID)
	own := jobstest.SubmitAs(t, s, s.NewKey(t, acme, access.RoleClient), func(*submit.Submission) {})
	got = <-given[dedicated.WorkerID]
	require.NotNil(t, got)
	require.Equal(t, own.ID, got.Job.ID)
	require.Less(t, clock.Elapsed(), lease.MaxLeaseWait/2)
}

// Workers of a dedicated pool that ask together keep the fair order of their accounts.
func TestLeaseTogetherFromADedicatedPool(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	owner := map[models.JobID]string{}
	var ids []models.AccountID
	for _, name := range []string{"a", "b", "other"} {
		account := s.NewAccount(t, name, models.TierPro)
		ids = append(ids, account.ID)
		key := s.NewKey(t, account, access.RoleClient)
		for range 6 {
			owner[jobstest.SubmitAs(t, s, key, func(in *submit.Submission) { in.Tier = models.TierPro }).ID] = name
		}
	}
	var fleet []jobs.Principal
	for i := range 8 {
		fleet = append(fleet, s.Worker(t, fmt.Sprint("w", i)))
	}
	s.Exec(t, "UPDATE workers SET accounts = ARRAY[?::uuid, ?::uuid]", ids[0], ids[1])

	given := map[string]int{}
	for _, held := range leaseTogether(t, s, fleet) {
		given[owner[held.Job.ID]]++
	}

	require.Equal(t, map[string]int{"a": 4, "b": 4}, given)
}
