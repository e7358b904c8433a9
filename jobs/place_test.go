package jobs_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// beginning is where the only place in a line begins.
func beginning(t *testing.T, s *jobstest.Stack) (order int64) {
	t.Helper()
	s.RequireInvariants(t)
	require.NoError(t, s.DB.NewRaw("SELECT first_order FROM account_lanes").Scan(t.Context(), &order))
	return order
}

func TestPlace(t *testing.T) {
	t.Parallel()

	t.Run("BeginsFurtherOnWithWhatLeavesAndEarlierWithWhatEnters", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		var order []int64
		for range 4 {
			order = append(order, s.Reload(t, s.Submit(t).ID).QueueOrder)
		}
		require.Equal(t, order[0], beginning(t, s))

		worker := s.Worker(t, "one")
		_, first := s.Lease(t, worker)
		require.Equal(t, order[0], beginning(t, s), "it was there until now")
		s.Lease(t, s.Worker(t, "two"))
		require.Equal(t, order[1], beginning(t, s))
		s.Lease(t, s.Worker(t, "three"))
		require.Equal(t, order[2], beginning(t, s))

		released, err := s.Holder.Release(t.Context(), worker, first, models.FailPreempted)
		require.NoError(t, err)
		require.Less(t, beginning(t, s), order[0])
		s.Index().Lose() // PostgreSQL has to find it
		next, _ := s.Lease(t, s.Worker(t, "four"))
		require.Equal(t, released.ID, next.Job.ID)
	})

	t.Run("BeginsWithTheFirstThatEntersAnEmptyOne", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		s.Submit(t)
		s.Lease(t, s.Worker(t, "one"))

		job := s.Reload(t, s.Submit(t).ID)

		require.Equal(t, job.QueueOrder, beginning(t, s))
	})

	t.Run("IsMendedByTheSweepIfAnOlderBinaryPutAJobBeforeIt", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Reload(t, s.Submit(t).ID)
		s.Exec(t, "UPDATE account_lanes SET first_order = ?", job.QueueOrder+1)
		s.Index().Lose()
		worker := s.Worker(t, "one")
		require.Nil(t, lease(t, s, worker))

		require.NoError(t, s.Readier.Sweep(t.Context()))

		s.Index().Lose()
		require.Equal(t, job.ID, lease(t, s, worker).Job.ID)
	})
}
