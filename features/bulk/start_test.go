package bulk_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

func TestStart(t *testing.T) {
	t.Parallel()

	t.Run("ActsOnTheChosenJobsThatFit", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		chosen, other, over := s.Submit(t), s.Submit(t), s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, over.ID)
		require.NoError(t, err)
		r := bulk.Request{Action: joblist.BulkCancel, IDs: []models.JobID{chosen.ID, over.ID, models.NewJobID()}, Eligible: true}

		r.DryRun = true
		dry, err := s.Bulk.Start(t.Context(), s.Client, r)
		require.NoError(t, err)
		require.Equal(t, 1, dry.Matched)
		require.Equal(t, []joblist.BulkSkip{{Status: models.JobCancelled, Jobs: 1}}, dry.Skips)
		r.DryRun = false
		op, err := s.Bulk.Start(t.Context(), s.Client, r)
		require.NoError(t, err)
		require.Equal(t, 1, jobstest.FinishBulk(t, s, op.ID).Done)

		require.Equal(t, models.JobCancelled, s.Reload(t, chosen.ID).Status)
		require.Equal(t, models.JobQueued, s.Reload(t, other.ID).Status)
		require.JSONEq(t, `{"accountId": "`+string(s.Client.AccountID)+`", "ids": 3}`, string(jobstest.BulkOperation(t, s, op.ID).Filter))
		stranger := s.Client
		stranger.AccountID = s.NewAccount(t, "stranger", models.TierPro).ID
		r.IDs = []models.JobID{other.ID}
		op, err = s.Bulk.Start(t.Context(), stranger, r)
		require.NoError(t, err)
		require.Zero(t, op.Matched, "jobs of other accounts are invisible")
	})

	t.Run("SaysThatThereMayBeMoreThatDoesNotFit", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for left := 20_001; left > 0; left -= 2000 { // one statement for all takes longer than a statement may on a busy machine
			_, err := s.DB.NewRaw(`
				INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds,
					estimated_gpu_seconds, user_id, completed_at)
				SELECT gen_random_uuid(), ?, 'video.generate', 'testcard', 'COMPLETED', 'PRO', 'PRO', '{}', 3, 600, 5, 'crowd', now()
				FROM generate_series(1, ?)`, s.Account.ID, min(left, 2000)).Exec(t.Context())
			require.NoError(t, err)
		}
		_, err := s.DB.NewRaw("ANALYZE jobs").Exec(t.Context())
		require.NoError(t, err)

		dry, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{
			Action: joblist.BulkCancel, Filter: joblist.JobFilter{UserID: "crowd"}, Eligible: true, DryRun: true,
		})

		require.NoError(t, err)
		require.Zero(t, dry.Matched)
		require.Equal(t, []joblist.BulkSkip{{Status: models.JobCompleted, Jobs: 20_000, More: true}}, dry.Skips)
	})

	t.Run("CountsWhatDoesNotFit", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 3 {
			_, err := s.Canceller.Cancel(t.Context(), s.Client, s.Submit(t).ID)
			require.NoError(t, err)
		}
		s.Submit(t)

		for action, want := range map[joblist.BulkAction]*joblist.BulkOperation{
			joblist.BulkCancel: {Matched: 1, Skips: []joblist.BulkSkip{{Status: models.JobCancelled, Jobs: 3}}},
			joblist.BulkRetry:  {Matched: 3, Skips: []joblist.BulkSkip{{Status: models.JobQueued, Jobs: 1}}},
			joblist.BulkDelete: {Matched: 3, Skips: []joblist.BulkSkip{{Status: models.JobQueued, Jobs: 1}}},
		} {
			got, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: action, DryRun: true, Eligible: true})

			require.NoError(t, err)
			require.Equal(t, want.Matched, got.Matched, action)
			require.Equal(t, want.Skips, got.Skips, action)
		}
	})

	t.Run("StartsOneOperationForAKey", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		r := bulk.Request{Action: joblist.BulkCancel, Key: "a click"}
		started := make([]*joblist.BulkOperation, 4)
		var clicks sync.WaitGroup
		for i := range started {
			clicks.Go(func() { started[i], _ = s.Bulk.Start(t.Context(), s.Client, r) })
		}
		clicks.Wait()

		for _, op := range started {
			require.NotNil(t, op)
			require.Equal(t, started[0].ID, op.ID)
			require.Equal(t, 1, op.Matched)
		}
		r.Action = joblist.BulkDelete
		_, err := s.Bulk.Start(t.Context(), s.Client, r)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		other, err := s.Bulk.Start(t.Context(), s.Admin, r)
		require.NoError(t, err, "a key is the account's own")
		require.NotEqual(t, started[0].ID, other.ID)
	})

	t.Run("RefusesInvalidIDsAndKeys", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for field, r := range map[string]bulk.Request{
			"ids":            {IDs: []models.JobID{"job_1'"}},
			"idempotencyKey": {Key: "a\x00b"},
		} {
			r.Action = joblist.BulkCancel
			_, err := s.Bulk.Start(t.Context(), s.Client, r)
			jobstest.RequireInvalid(t, err, field)
		}
		many := make([]models.JobID, bulk.MaxBulkIDs+1)
		for i := range many {
			many[i] = models.JobID(fmt.Sprintf("job_00000000-0000-7000-8000-%012x", i))
		}
		_, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel, IDs: many})
		jobstest.RequireInvalid(t, err, "ids")
	})
}
