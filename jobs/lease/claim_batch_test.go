package lease_test

import (
	"fmt"
	"sync"
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

// leaseTogether lets all workers ask for a job in as few transactions as possible: the first
// call is delayed until the others wait behind it.
func leaseTogether(t *testing.T, s *jobstest.Stack, fleet []jobs.Principal) []*lease.Lease {
	t.Helper()
	tx, err := s.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "LOCK TABLE lanes IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	leases := make([]*lease.Lease, len(fleet))
	var calls sync.WaitGroup
	for i, worker := range fleet {
		calls.Go(func() { leases[i] = jobstest.LeaseNext(t, s, worker) })
		if i == 0 {
			s.WaitForLocks(t, 1)
		}
	}
	testrun.Eventually(t, "all look", func() bool { return lease.Looking(s.Leaser) == len(fleet) })
	require.NoError(t, tx.Commit())
	calls.Wait()
	s.RequireInvariants(t)
	return leases
}

func TestLeaseTogether(t *testing.T) {
	t.Parallel()

	// line makes accounts with several weights and limits, whose jobs take different times.
	line := func(t *testing.T) (s *jobstest.Stack, names map[models.JobID]string, fleet []jobs.Principal) {
		s, names = jobstest.New(t), map[models.JobID]string{}
		for i, tier := range []models.Tier{models.TierPro, models.TierPro, models.TierEnterprise, models.TierPro} {
			account := s.NewAccount(t, fmt.Sprint("account", i), tier)
			s.Exec(t, "UPDATE accounts SET weight = ?, max_running = ? WHERE id = ?", float64(1+i), []int{100, 3, 100, 100}[i], account.ID)
			key := s.NewKey(t, account, access.RoleClient)
			for n := range 12 {
				job := jobstest.SubmitAs(t, s, key, func(in *submit.Submission) { in.Tier, in.Priority = models.TierPro, n%3 })
				names[job.ID] = fmt.Sprint(i, ".", n)
			}
		}
		// No two accounts reach the same virtual time.
		s.Exec(t, "UPDATE jobs j SET estimated_gpu_seconds = 10 * (1 + priority) + 0.731 * a.weight FROM accounts a WHERE a.id = j.account_id")
		for i := range 25 {
			fleet = append(fleet, s.Worker(t, fmt.Sprint("w", i)))
		}
		return s, names, fleet
	}

	t.Run("GivesTheSameJobsAsSingleCalls", func(t *testing.T) {
		t.Parallel()
		one, names, fleet := line(t)
		var expected []string
		for _, worker := range fleet {
			expected = append(expected, names[jobstest.LeaseNext(t, one, worker).Job.ID])
		}

		all, names, fleet := line(t)
		var given []string
		for _, held := range leaseTogether(t, all, fleet) {
			given = append(given, names[held.Job.ID])
		}

		require.ElementsMatch(t, expected, given)
	})

	t.Run("UsesFewTransactions", func(t *testing.T) {
		t.Parallel()
		s, _, fleet := line(t)

		leaseTogether(t, s, fleet)

		var commits int
		require.NoError(t, s.DB.NewRaw("SELECT count(DISTINCT xmin::text) FROM job_attempts").Scan(t.Context(), &commits))
		require.Less(t, commits, 6, "the first comes alone, and its lane's first turns end early")
	})

	t.Run("ServesAsManyWorkersAsThereAreJobs", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		for range 3 {
			s.Submit(t)
		}
		var fleet []jobs.Principal
		for i := range 8 {
			fleet = append(fleet, s.Worker(t, fmt.Sprint("w", i)))
		}

		served := 0
		for _, held := range leaseTogether(t, s, fleet) {
			if held != nil {
				served++
			}
		}

		require.Equal(t, 3, served)
	})
}
