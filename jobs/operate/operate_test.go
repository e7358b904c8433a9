package operate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestPauseQueue(t *testing.T) {
	t.Parallel()

	for name, lose := range jobstest.LoseIndex {
		t.Run("GivesNoJobOfThePausedQueue"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			one, two, three := s.Worker(t, "one"), s.Worker(t, "two"), s.Worker(t, "three")
			s.Submit(t)
			running := jobstest.LeaseNext(t, s, one)
			for _, model := range []string{"", "testcard"} {
				paused, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierEnterprise, model, "")
				require.NoError(t, err)
				require.True(t, paused.Paused())
			}
			held := s.Submit(t)
			batch := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
			lose(s)

			require.Equal(t, batch.ID, jobstest.LeaseNext(t, s, two).Job.ID, "the lane below is still served")
			require.Nil(t, jobstest.LeaseNext(t, s, three))
			_, err := s.Attempts.Heartbeat(t.Context(), one, jobstest.FenceOf(running), nil)
			require.NoError(t, err)
			_, err = s.Operator.ResumeQueue(t.Context(), s.Admin, models.TierEnterprise, "testcard")
			jobstest.RequireCode(t, err, apierror.CodeConflict)
			require.Nil(t, jobstest.LeaseNext(t, s, three))
			resumed, err := s.Operator.ResumeQueue(t.Context(), s.Admin, models.TierEnterprise, "")
			require.NoError(t, err)
			require.False(t, resumed.Paused())
			require.Equal(t, 1, resumed.Depth)
			require.Equal(t, 1, resumed.Running)
			require.Equal(t, held.ID, jobstest.LeaseNext(t, s, three).Job.ID)
		})
	}

	t.Run("ShowsAnEmptyQueueThatIsPaused", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "testcard", "")
		require.NoError(t, err)
		s.Submit(t)

		queues, err := s.Reads.Queues.Counts(t.Context())

		require.NoError(t, err)
		require.Len(t, queues, 2)
		require.False(t, queues[0].Paused())
		require.Equal(t, models.TierPro, queues[1].Lane)
		require.True(t, queues[1].Paused())
		require.Zero(t, queues[1].Depth)
		var by string
		require.NoError(t, s.DB.NewRaw("SELECT changed_by FROM queue_pauses WHERE changed_at <= clock_timestamp()").Scan(t.Context(), &by))
		require.Equal(t, string(s.Admin.KeyID), by)
	})

	t.Run("ShowsWhoPausedItWhenAndWhy", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		for lane, model := range map[models.Tier]string{models.TierEnterprise: "", models.TierPro: "", models.TierBatch: "testcard"} {
			_, err := s.Operator.PauseQueue(t.Context(), s.Admin, lane, model, " storage is full ")
			require.NoError(t, err)
		}
		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierEnterprise, "testcard", "twice")
		require.NoError(t, err)

		queues, err := s.Reads.Queues.Counts(t.Context())

		require.NoError(t, err)
		var shown []string
		for _, q := range queues {
			require.True(t, q.Paused())
			require.NotZero(t, q.Pause.At)
			shown = append(shown, fmt.Sprintf("%s %q %d: %s %q by %s: %s", q.Lane, q.Model, q.Depth, q.Pause.Lane, q.Pause.Model, q.Pause.By,
				q.Pause.Reason))
		}
		require.Equal(t, []string{
			`ENTERPRISE "testcard" 1: ENTERPRISE "" by test ADMIN: storage is full`,
			`PRO "" 0: PRO "" by test ADMIN: storage is full`,
			`BATCH "testcard" 0: BATCH "testcard" by test ADMIN: storage is full`,
		}, shown, "a lane with jobs has no row of its own")
		pauses, err := s.Reads.Queues.Pauses(t.Context())
		require.NoError(t, err)
		require.Len(t, pauses, 4)
	})

	t.Run("RefusesInvalidInput", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "", strings.Repeat("x", 201))
		jobstest.RequireInvalid(t, err, "reason")
		_, err = s.Operator.PauseQueue(t.Context(), s.Client, models.TierPro, "", "")
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, err = s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "no such model", "")
		jobstest.RequireInvalid(t, err, "model")
	})
}
