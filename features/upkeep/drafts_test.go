package upkeep_test

import (
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/stretchr/testify/require"
)

func TestReviewDrafts(t *testing.T) {
	t.Parallel()

	// passes lets time pass for a completed draft.
	passes := func(t *testing.T, s *jobstest.Stack, interval string) {
		t.Helper()
		jobstest.Age(t, s, interval)
		s.Exec(t, "UPDATE jobs SET kept_until = kept_until - ?::interval", interval)
	}

	t.Run("KeepsThemForAWeek", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		passes(t, s, "167 hours")

		require.Zero(t, review(t, s))

		for _, a := range jobstest.Artifacts(t, s, draft.ID) {
			require.WithinDuration(t, s.Reload(t, draft.ID).KeptUntil, a.ExpiresAt, 0)
		}
		require.Zero(t, s.Reload(t, draft.ID).WastedGPUSeconds)
		passes(t, s, "1 hour")
		require.Equal(t, 2, review(t, s), "the checkpoint and the preview")
		gone := s.Reload(t, draft.ID)
		require.Empty(t, gone.LatestCheckpointID)
		require.Positive(t, gone.WastedGPUSeconds, "nobody continued it")
		_, err := s.Upkeep.DeleteObjects(t.Context())
		require.NoError(t, err)
		require.Empty(t, jobstest.Stored(t, s))
	})

	t.Run("KeepsThemAsLongAsTheAccountSays", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		_, err := s.Accounts.Update(t.Context(), s.Admin, s.Account.ID, auth.AccountInput{DraftsKeptHours: new(1)})
		require.NoError(t, err)
		draft := jobstest.FinishDraft(t, s, s.Worker(t, "one"),
			jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} }))
		require.InDelta(t, 3600, draft.KeptUntil.Sub(draft.CompletedAt).Seconds(), 0)
		passes(t, s, "1 hour")

		require.Equal(t, 2, review(t, s))
	})

	t.Run("LeavesWhatWasContinued", func(t *testing.T) {
		t.Parallel()
		s, draft := jobstest.Drafted(t)
		job, _, err := s.Submitter.Continue(t.Context(), s.Client, draft.ID)
		require.NoError(t, err)
		passes(t, s, "169 hours")

		require.Equal(t, 1, review(t, s), "the preview")

		require.NotEmpty(t, s.Reload(t, job.ID).LatestCheckpointID)
		require.Len(t, jobstest.Artifacts(t, s, job.ID), 1)
		require.Zero(t, s.Reload(t, draft.ID).WastedGPUSeconds)
	})
}
