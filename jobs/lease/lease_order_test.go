package lease_test

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestLeaseOrder(t *testing.T) {
	t.Parallel()

	for name, lose := range jobstest.LoseIndex {
		t.Run("OrdersByLaneThenPriorityThenAge"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			low := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Priority = -5 })
			old := jobstest.SubmitAs(t, s, s.Client, nil)
			young := jobstest.SubmitAs(t, s, s.Client, nil)
			high := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Priority = 5 })
			free := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier, in.Priority = models.TierFree, 100 })
			batch := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier, in.Priority = models.TierBatch, 100 })
			critical := jobstest.SubmitAs(t, s, s.Admin, func(in *submit.Submission) { in.Priority = -100 })
			lose(s)

			var order []models.JobID
			for i := range 7 {
				order = append(order, jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint(i))).Job.ID)
			}

			require.Equal(t, []models.JobID{critical.ID, high.ID, old.ID, young.ID, low.ID, free.ID, batch.ID}, order)
		})

		t.Run("SharesALaneByWeight"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			light, heavy := s.NewAccount(t, "light", models.TierPro), s.NewAccount(t, "heavy", models.TierPro)
			s.Exec(t, "UPDATE accounts SET weight = 3 WHERE id = ?", heavy.ID)
			s.Exec(t, "UPDATE accounts SET max_running = 100")
			for _, account := range []*models.Account{light, heavy} {
				key := s.NewKey(t, account, access.RoleClient)
				for range 12 {
					jobstest.SubmitAs(t, s, key, nil)
				}
			}
			lose(s)

			given := map[models.AccountID]int{}
			for i := range 12 {
				given[jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint(i))).Job.AccountID]++
			}

			require.InDelta(t, 3, given[light.ID], 1)
			require.InDelta(t, 9, given[heavy.ID], 1)
		})

		t.Run("SkipsAnAccountAtItsRunningLimit"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			other := s.NewKey(t, s.NewAccount(t, "other", models.TierFree), access.RoleClient)
			s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", s.Account.ID)
			first, second := s.Submit(t), s.Submit(t)
			behind := jobstest.SubmitAs(t, s, other, nil)
			lose(s)
			one, two, three := s.Worker(t, "one"), s.Worker(t, "two"), s.Worker(t, "three")

			held := jobstest.LeaseNext(t, s, one)
			require.Equal(t, first.ID, held.Job.ID)
			require.Equal(t, behind.ID, jobstest.LeaseNext(t, s, two).Job.ID)
			require.Nil(t, jobstest.LeaseNext(t, s, three))
			_, err := s.Attempts.Fail(t.Context(), one, jobstest.FenceOf(held), lease.Failure{Class: models.FailContentPolicy})
			require.NoError(t, err)
			require.Equal(t, second.ID, jobstest.LeaseNext(t, s, three).Job.ID)
		})

		t.Run("GivesARequeuedJobItsOldPlace"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			job := s.Submit(t)
			jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Priority = 100 })
			one, two := s.Worker(t, "one"), s.Worker(t, "two")
			jobstest.LeaseNext(t, s, one) // the urgent job
			held := jobstest.LeaseNext(t, s, two)
			require.Equal(t, job.ID, held.Job.ID)
			jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Priority = 100 })
			lose(s)

			_, err := s.Attempts.Release(t.Context(), two, jobstest.FenceOf(held), models.FailPreempted)
			require.NoError(t, err)

			again := jobstest.LeaseNext(t, s, two)
			require.Equal(t, job.ID, again.Job.ID)
			require.Equal(t, 2, again.Attempt.AttemptNo)
			require.NotEqual(t, held.Attempt.FencingToken, again.Attempt.FencingToken)
		})
	}

	t.Run("StartsANewAccountAtTheLanesVirtualTime", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 30 {
			s.Submit(t)
		}
		for i := range 20 {
			jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint(i)))
		}
		late := s.NewAccount(t, "late", models.TierEnterprise)
		key := s.NewKey(t, late, access.RoleClient)
		for range 10 {
			jobstest.SubmitAs(t, s, key, nil)
		}

		given := map[models.AccountID]int{}
		for i := range 10 {
			given[jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint("late", i))).Job.AccountID]++
		}

		require.InDelta(t, 5, given[late.ID], 1, "it neither waits its turn out nor makes up for its absence")
	})

	t.Run("GivesAnAccountNoCreditForIdleTime", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		back := s.NewAccount(t, "back", models.TierEnterprise)
		key := s.NewKey(t, back, access.RoleClient)
		jobstest.SubmitAs(t, s, key, nil)
		jobstest.LeaseNext(t, s, s.Worker(t, "early"))
		for range 12 {
			s.Submit(t)
		}
		for i := range 6 {
			jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint(i)))
		}
		for range 6 {
			jobstest.SubmitAs(t, s, key, nil)
		}

		given := map[models.AccountID]int{}
		for i := range 6 {
			given[jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint("late", i))).Job.AccountID]++
		}

		require.InDelta(t, 3, given[back.ID], 1)
	})
}
