package bulk_test

import (
	"context"
	"testing"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

// TestBulkControl covers pausing, cancelling and resuming an operation.
func TestBulkControl(t *testing.T) {
	t.Parallel()

	t.Run("PausesAndResumes", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 3, bulk.Request{PerMinute: new(60)})
		jobstest.BulkPass(t, s, s.Bulk, "0 s")

		paused, err := s.Bulk.Pause(t.Context(), s.Client, op.ID)
		require.NoError(t, err)
		require.True(t, paused.Paused)
		require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "1 hour"))
		again, err := s.Bulk.Pause(t.Context(), s.Client, op.ID)
		require.NoError(t, err)
		require.True(t, again.Paused)

		resumed, err := s.Bulk.Resume(t.Context(), s.Client, op.ID)
		require.NoError(t, err)
		require.False(t, resumed.Paused)
		require.Equal(t, 3, jobstest.FinishBulk(t, s, op.ID).Done)
		_, err = s.Bulk.Pause(t.Context(), s.Client, op.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		_, err = s.Bulk.Resume(t.Context(), s.Client, op.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	})

	t.Run("EndsWhenCancelled", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 3, bulk.Request{PerMinute: new(60)})
		b := verb(s, func(ctx context.Context, item *joblist.BulkItem) error { // during the first item
			_, err := s.Bulk.Cancel(ctx, s.Client, op.ID)
			return err
		})
		require.Equal(t, 1, jobstest.BulkPass(t, s, b, "5 s"))

		over, err := s.Bulk.Get(t.Context(), s.Client, op.ID)
		require.NoError(t, err)
		require.Equal(t, 1, over.Done)
		require.NotZero(t, over.FinishedAt)
		require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "1 hour"))
		require.Equal(t, models.JobQueued, s.Reload(t, ids[2]).Status)
		_, err = s.Bulk.Cancel(t.Context(), s.Client, op.ID)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	})

	t.Run("StopsInTheMiddleOfABatchWhenPaused", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 5, bulk.Request{PerMinute: new(60)})
		b := verb(s, func(ctx context.Context, _ *joblist.BulkItem) error {
			_, err := s.Bulk.Pause(ctx, s.Client, op.ID)
			return err
		})

		require.Equal(t, 1, jobstest.BulkPass(t, s, b, "5 s"))
	})

	t.Run("StopsIfItsCanaryFails", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 6, bulk.Request{Canary: new(2)})
		refusing := verb(s, func(context.Context, *joblist.BulkItem) error {
			return apierror.Conflict("no")
		})
		require.Equal(t, 2, jobstest.BulkPass(t, s, refusing, "5 s"))
		require.Zero(t, jobstest.BulkPass(t, s, refusing, "5 s"))

		stopped := jobstest.BulkOperation(t, s, op.ID)

		require.True(t, stopped.Paused)
		require.Equal(t, 2, stopped.Failed)
		require.Contains(t, stopped.Errors[2].Message, "2 of the first 2 jobs failed")
		_, err := s.Bulk.Resume(t.Context(), s.Client, op.ID)
		require.NoError(t, err)
		require.Equal(t, 4, jobstest.FinishBulk(t, s, op.ID).Done, "a resumed operation finishes")
	})

	t.Run("ContinuesAfterItsCanariesSucceeded", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 6, bulk.Request{Canary: new(2)})

		require.Equal(t, 2, jobstest.BulkPass(t, s, s.Bulk, "5 s"))
		require.Equal(t, 4, jobstest.BulkPass(t, s, s.Bulk, "5 s"))

		require.False(t, jobstest.BulkOperation(t, s, op.ID).FinishedAt.IsZero())
	})

	t.Run("StopsWhenItsKeyIsRevoked", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 2, bulk.Request{})
		require.NoError(t, s.Keys.Revoke(t.Context(), s.Admin, s.Client.KeyID))

		require.Zero(t, jobstest.BulkPass(t, s, s.Bulk, "5 s"))

		stopped := jobstest.BulkOperation(t, s, op.ID)
		require.True(t, stopped.Paused)
		require.Equal(t, "UNAUTHENTICATED", stopped.Errors[0].Code)
		require.Equal(t, models.JobQueued, s.Reload(t, ids[0]).Status)
	})
}
