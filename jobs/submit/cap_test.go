package submit_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestCap(t *testing.T) {
	t.Parallel()

	t.Run("HoldsThoughTheIndexDoesNotKnowIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", s.Account.ID)
		first, second := s.Submit(t), s.Submit(t)
		require.Equal(t, first.ID, jobstest.LeaseNext(t, s, s.Worker(t, "one")).Job.ID)
		// A late standing says that the account is below its limit, as it was before.
		require.NoError(t, s.Index().SetFlows(t.Context(), models.FlowState{AccountID: s.Account.ID, Version: 1 << 40}))
		hinted, err := s.Index().First(t.Context(), []models.Queue{second.Queue()}, nil, 1)
		require.NoError(t, err)
		require.Len(t, hinted, 1, "the index would give the second job away")

		got := jobstest.LeaseNext(t, s, s.Worker(t, "two"))

		require.Nil(t, got)
		require.Equal(t, models.JobQueued, s.Reload(t, second.ID).Status)
		s.RequireInvariants(t)
	})
}
