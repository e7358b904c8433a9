package bulk_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

// cancelling starts an operation that cancels n jobs of the client's.
func cancelling(t *testing.T, n int, r bulk.Request) (*jobstest.Stack, []models.JobID, *joblist.BulkOperation) {
	t.Helper()
	s := jobstest.New(t)
	var ids []models.JobID
	for range n {
		ids = append(ids, s.Submit(t).ID)
	}
	r.Action = joblist.BulkCancel
	op, err := s.Bulk.Start(t.Context(), s.Client, r)
	require.NoError(t, err)
	require.Equal(t, n, op.Matched)
	return s, ids, op
}

// verb returns a Bulk whose CANCEL calls act.
func verb(s *jobstest.Stack, act func(ctx context.Context, item *joblist.BulkItem) error) *bulk.Bulk {
	return &bulk.Bulk{DB: s.DB, Verbs: map[joblist.BulkAction]bulk.Verb{
		joblist.BulkCancel: func(ctx context.Context, _ jobs.Principal, _ *joblist.BulkOperation, item *joblist.BulkItem) error {
			return act(ctx, item)
		},
	}}
}

func TestBulk(t *testing.T) {
	t.Parallel()

	t.Run("ActsOnTheJobsThatMatchedAtItsStart", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 5, bulk.Request{Filter: joblist.JobFilter{Model: "testcard"}})
		late := s.Submit(t)

		over := jobstest.FinishBulk(t, s, op.ID)

		require.Equal(t, 5, over.Done)
		require.Zero(t, over.Failed)
		require.Empty(t, over.Errors)
		for _, id := range ids {
			job := s.Reload(t, id)
			require.Equal(t, models.JobCancelled, job.Status)
			require.Equal(t, string(s.Client.KeyID), job.CancelBy, "it acts as whoever started it")
		}
		require.Equal(t, models.JobQueued, s.Reload(t, late.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("IsFinishedAtOnceIfNothingMatches", func(t *testing.T) {
		t.Parallel()

		_, _, op := cancelling(t, 0, bulk.Request{})

		require.False(t, op.FinishedAt.IsZero())
	})

	t.Run("OnlyCountsInADryRun", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 3 {
			s.Submit(t)
		}
		before := s.Dump(t)

		op, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel, DryRun: true})

		require.NoError(t, err)
		require.Equal(t, 3, op.Matched)
		require.False(t, op.FinishedAt.IsZero())
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("KeepsItsPace", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 30, bulk.Request{PerMinute: new(30)})

		require.Equal(t, 1, jobstest.BulkPass(t, s, s.Bulk, "0 s"))
		require.Equal(t, 0, jobstest.BulkPass(t, s, s.Bulk, "0 s"))
		require.Equal(t, 1, jobstest.BulkPass(t, s, s.Bulk, "2 s"))
		require.Equal(t, 2, jobstest.BulkPass(t, s, s.Bulk, "4 s"), "a late pass makes up for it")
		require.Equal(t, 3, jobstest.BulkPass(t, s, s.Bulk, "1 hour"), "but not for an hour")
		require.Equal(t, 0, jobstest.BulkPass(t, s, s.Bulk, "0 s"))
		require.Equal(t, 7, jobstest.BulkOperation(t, s, op.ID).Done)
	})

	t.Run("SharesItsPaceAndItemsBetweenProcesses", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 60, bulk.Request{PerMinute: new(60_000)})
		var mu sync.Mutex
		acted := map[models.JobID]int{}
		var processes sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			b := verb(s, func(_ context.Context, item *joblist.BulkItem) error {
				mu.Lock()
				defer mu.Unlock()
				acted[item.JobID]++
				return nil
			})
			processes.Go(func() {
				for range 100 {
					if _, errs[i] = b.Pass(t.Context()); errs[i] != nil {
						return
					}
				}
			})
		}
		processes.Wait()

		for _, err := range errs {
			require.NoError(t, err)
		}
		over := jobstest.FinishBulk(t, s, op.ID)
		require.Equal(t, 60, over.Done)
		require.Len(t, acted, len(ids))
		for id, n := range acted {
			require.Equal(t, 1, n, id)
		}
	})

	t.Run("LetsNoAccountsOperationsDelayThoseOfAnother", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 30 {
			s.Submit(t)
		}
		all := bulk.Request{Action: joblist.BulkSetPriority, Priority: new(1), PerMinute: new(60_000)}
		for range 9 {
			_, err := s.Bulk.Start(t.Context(), s.Client, all)
			require.NoError(t, err)
		}
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		own := jobstest.SubmitAs(t, s, stranger, func(*submit.Submission) {})
		late, err := s.Bulk.Start(t.Context(), stranger, all)
		require.NoError(t, err)
		var acted []models.JobID
		b := &bulk.Bulk{DB: s.DB, Verbs: map[joblist.BulkAction]bulk.Verb{
			joblist.BulkSetPriority: func(_ context.Context, _ jobs.Principal, _ *joblist.BulkOperation, item *joblist.BulkItem) error {
				acted = append(acted, item.JobID)
				return nil
			},
		}}

		require.Equal(t, 201, jobstest.BulkPass(t, s, b, "5 s"), "one account's operations share its batch")

		require.LessOrEqual(t, slices.Index(acted, own.ID), 20, "it waits for one turn of the other account")
		require.False(t, jobstest.BulkOperation(t, s, late.ID).FinishedAt.IsZero())
		shares := 0
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM bulk_operations WHERE done > 0 AND account_id = ?",
			s.Client.AccountID).Scan(t.Context(), &shares))
		require.Equal(t, 9, shares, "the operations of an account take turns, too")
	})

	t.Run("SkipsItemsOfAnotherProcess", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 2, bulk.Request{PerMinute: new(60)})
		var acted []models.JobID
		other := verb(s, func(_ context.Context, item *joblist.BulkItem) error {
			acted = append(acted, item.JobID)
			return nil
		})
		slow := verb(s, func(_ context.Context, item *joblist.BulkItem) error {
			require.Equal(t, 1, jobstest.BulkPass(t, s, other, "5 s"))
			acted = append(acted, item.JobID)
			return nil
		})

		require.Equal(t, 1, jobstest.BulkPass(t, s, slow, "0 s"))

		require.Equal(t, []models.JobID{ids[1], ids[0]}, acted)
		require.False(t, jobstest.BulkOperation(t, s, op.ID).FinishedAt.IsZero())
	})

	t.Run("ContinuesAfterACrashAtAnyMoment", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 6, bulk.Request{PerMinute: new(600)})
		for _, acts := range []bool{false, true} {
			// The process dies in its second item, before or after the job changed.
			ctx, kill := context.WithCancel(t.Context())
			turn := 0
			dying := verb(s, func(ctx context.Context, item *joblist.BulkItem) error {
				if turn++; turn < 2 || acts {
					_, err := s.Canceller.Cancel(ctx, s.Client, item.JobID)
					require.NoError(t, err)
				}
				if turn == 2 {
					kill()
				}
				return nil
			})
			s.Exec(t, "UPDATE bulk_operations SET next_at = next_at - interval '5 s'")
			_, err := dying.Pass(ctx)
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, 2, jobstest.BulkOperation(t, s, op.ID).Done)

		over := jobstest.FinishBulk(t, s, op.ID)

		require.Equal(t, 6, over.Done)
		require.Zero(t, over.Failed)
		for _, id := range ids {
			require.Equal(t, 1, lo.Count(jobstest.EventTypes(t, s, id), models.EventCancelled))
		}
		s.RequireInvariants(t)
	})

	t.Run("ReportsWhyAJobWasNotChanged", func(t *testing.T) {
		t.Parallel()

		s, done, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.Complete(t.Context(), worker, fence,
			lease.Completion{Video: new(s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("video")))})
		require.NoError(t, err)
		s.Submit(t)
		op, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel})
		require.NoError(t, err)

		over := jobstest.FinishBulk(t, s, op.ID)

		require.Equal(t, 1, over.Done)
		require.Equal(t, 1, over.Failed)
		require.Equal(t, []*joblist.BulkError{{
			Code: "CONFLICT", Message: "This job is COMPLETED: it is too late to cancel it.", Field: []string{string(done.ID)},
		}}, over.Errors)
	})

	t.Run("KeepsAHundredErrors", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 110, bulk.Request{PerMinute: new(60_000)})
		refusing := verb(s, func(context.Context, *joblist.BulkItem) error {
			return apierror.Conflict("no")
		})
		for range 100 {
			if jobstest.BulkPass(t, s, refusing, "5 s") == 0 {
				break
			}
		}

		over := jobstest.BulkOperation(t, s, op.ID)

		require.False(t, over.FinishedAt.IsZero())
		require.Equal(t, 110, over.Failed)
		require.Len(t, over.Errors, joblist.MaxBulkErrors)
	})

	t.Run("RetriesAfterAnInternalErrorAndThenGivesUp", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 2, bulk.Request{})
		broken := verb(s, func(_ context.Context, item *joblist.BulkItem) error {
			if item.JobID == ids[0] {
				return errors.New("the disk is on fire")
			}
			return nil
		})
		for range 5 {
			s.Exec(t, "UPDATE bulk_operations SET next_at = next_at - interval '5 s'")
			_, err := broken.Pass(t.Context())
			require.ErrorContains(t, err, "the disk is on fire")
		}

		over := jobstest.BulkOperation(t, s, op.ID)

		require.False(t, over.FinishedAt.IsZero())
		require.Equal(t, 1, over.Done, "the others do not wait for it")
		require.Equal(t, "INTERNAL", over.Errors[0].Code)
		require.NotContains(t, over.Errors[0].Message, "fire")
	})

	t.Run("WaitsAfterATemporaryRefusal", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 2, bulk.Request{})
		full := verb(s, func(_ context.Context, item *joblist.BulkItem) error {
			if item.JobID == ids[0] {
				return apierror.Later(apierror.CodeQuotaExceeded, time.Hour, "full")
			}
			return nil
		})

		jobstest.BulkPass(t, s, full, "5 s")

		waiting := jobstest.BulkOperation(t, s, op.ID)
		require.Equal(t, 1, waiting.Done)
		require.Zero(t, waiting.Failed)
		require.Greater(t, time.Until(waiting.NextAt), 50*time.Second, "all that is left is refused")
		require.Less(t, time.Until(waiting.NextAt), 70*time.Second)
		require.Zero(t, jobstest.BulkPass(t, s, full, "0 s"))
		s.Exec(t, "UPDATE bulk_operations SET next_at = clock_timestamp()")
		require.Equal(t, 2, jobstest.FinishBulk(t, s, op.ID).Done)
	})

	t.Run("SkipsAJobThatHasBegunAnotherRun", func(t *testing.T) {
		t.Parallel()

		s, ids, op := cancelling(t, 1, bulk.Request{})
		s.Exec(t, "UPDATE bulk_items SET run = 7")

		over := jobstest.FinishBulk(t, s, op.ID)

		require.Zero(t, over.Done)
		require.Equal(t, []joblist.BulkOutcome{{Code: "CONFLICT", Jobs: 1}}, over.Failures())
		require.Contains(t, over.Errors[0].Message, "has started another run")
		require.Equal(t, models.JobQueued, s.Reload(t, ids[0]).Status)
	})

	t.Run("StaysWithinTheCallersAccount", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 2, bulk.Request{PerMinute: new(60)})
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		colleague := s.NewKey(t, s.Account, access.RoleClient)
		operators, err := s.Bulk.Start(t.Context(), s.NewKey(t, s.Account, access.RoleOperator), bulk.Request{Action: joblist.BulkCancel})
		require.NoError(t, err)

		foreign, err := s.Bulk.Start(t.Context(), stranger, bulk.Request{Action: joblist.BulkCancel})
		require.NoError(t, err)
		require.Zero(t, foreign.Matched)
		_, err = s.Bulk.Start(t.Context(), stranger, bulk.Request{Action: joblist.BulkCancel, Filter: joblist.JobFilter{AccountID: s.Account.ID}})
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
		_, err = s.Bulk.Start(t.Context(), s.Enrolment, bulk.Request{Action: joblist.BulkCancel})
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, err = s.Bulk.Get(t.Context(), colleague, op.ID)
		require.NoError(t, err)
		for id, p := range map[models.BulkID]jobs.Principal{
			op.ID: stranger, operators.ID: colleague, models.NewBulkID(): s.Admin, "bulk_1": s.Admin, "": s.Admin,
		} {
			before := s.Dump(t)
			for _, call := range []func(context.Context, jobs.Principal, models.BulkID) (*joblist.BulkOperation, error){s.Bulk.Get, s.Bulk.Pause,
				s.Bulk.Resume} {
				_, err := call(t.Context(), p, id)
				jobstest.RequireCode(t, err, apierror.CodeNotFound)
			}
			require.Equal(t, before, s.Dump(t))
		}
	})

	t.Run("RefusesInvalidInput", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		before := s.Dump(t)
		for field, r := range map[string]bulk.Request{
			"action":       {Action: "EXPLODE"},
			"tier":         {Action: joblist.BulkCancel, Tier: models.TierPro},
			"perMinute":    {Action: joblist.BulkCancel, PerMinute: new(0)},
			"canary":       {Action: joblist.BulkCancel, Canary: new(-1)},
			"filter.model": {Action: joblist.BulkCancel, Filter: joblist.JobFilter{Model: "\x00"}},
		} {
			for _, r.DryRun = range []bool{false, true} {
				_, err := s.Bulk.Start(t.Context(), s.Client, r)
				jobstest.RequireInvalid(t, err, field)
			}
		}
		_, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel, PerMinute: new(60_001)})
		jobstest.RequireInvalid(t, err, "perMinute")
		_, err = s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel, Canary: new(1_001)})
		jobstest.RequireInvalid(t, err, "canary")
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("RefusesTooManyJobsAndOperations", func(t *testing.T) {
		t.Parallel()

		s, _, _ := cancelling(t, 1, bulk.Request{})
		for range 19 {
			_, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel})
			require.NoError(t, err)
		}
		before := s.Dump(t)

		_, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{Action: joblist.BulkCancel})

		jobstest.RequireCode(t, err, apierror.CodeQuotaExceeded)
		require.Equal(t, before, s.Dump(t))
	})

	t.Run("IsDeletedAMonthAfterItsEnd", func(t *testing.T) {
		t.Parallel()

		s, _, op := cancelling(t, 3, bulk.Request{})
		jobstest.FinishBulk(t, s, op.ID)
		none, err := s.Bulk.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, none)
		s.Exec(t, "UPDATE bulk_operations SET finished_at = finished_at - interval '31 days'")

		for _, expected := range []int{3, 1, 0} {
			n, err := s.Bulk.Sweep(t.Context())
			require.NoError(t, err)
			require.Equal(t, expected, n)
		}

		_, err = s.Bulk.Get(t.Context(), s.Admin, op.ID)
		jobstest.RequireCode(t, err, apierror.CodeNotFound)
	})
}

func TestBulkVerbs(t *testing.T) {
	t.Parallel()

	t.Run("DeleteAndSetTheTier", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		over, waiting := s.Submit(t), s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, over.ID)
		require.NoError(t, err)

		deleting, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{
			Action: joblist.BulkDelete, Filter: joblist.JobFilter{Status: []models.JobStatus{models.JobCancelled}},
		})
		require.NoError(t, err)
		moving, err := s.Bulk.Start(t.Context(), s.Admin, bulk.Request{
			Action: joblist.BulkSetTier, Tier: models.TierBatch, Filter: joblist.JobFilter{Status: []models.JobStatus{models.JobQueued}},
		})
		require.NoError(t, err)
		ordering, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{
			Action: joblist.BulkSetPriority, Priority: new(-5), Eligible: true, IDs: []models.JobID{over.ID, waiting.ID}, Key: "once",
		})
		require.NoError(t, err)
		again, err := s.Bulk.Start(t.Context(), s.Client, bulk.Request{
			Action: joblist.BulkSetPriority, Priority: new(-5), Eligible: true, IDs: []models.JobID{over.ID, waiting.ID}, Key: "once",
		})
		require.NoError(t, err)
		require.Equal(t, ordering.ID, again.ID)
		_, err = s.Bulk.Start(t.Context(), s.Client, bulk.Request{
			Action: joblist.BulkSetPriority, Priority: new(5), IDs: []models.JobID{waiting.ID}, Key: "once",
		})
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		_, err = s.Bulk.Pass(t.Context())
		require.NoError(t, err)
		require.Equal(t, -5, s.Reload(t, waiting.ID).Priority)

		for _, id := range []models.BulkID{deleting.ID, moving.ID, ordering.ID} {
			op, err := s.Bulk.Get(t.Context(), s.Admin, id)
			require.NoError(t, err)
			require.Equal(t, 1, op.Done)
		}
		require.False(t, s.Reload(t, over.ID).DeletedAt.IsZero())
		require.Equal(t, models.TierBatch, s.Reload(t, waiting.ID).Lane)
		for _, r := range []bulk.Request{
			{Action: joblist.BulkSetPriority}, {Action: joblist.BulkSetPriority, Priority: new(101)},
			{Action: joblist.BulkSetPriority, Priority: new(-101)},
			{Action: joblist.BulkCancel, Priority: new(0)},
		} {
			_, err := s.Bulk.Start(t.Context(), s.Admin, r)
			jobstest.RequireInvalid(t, err, "priority")
		}
		for field, r := range map[string]struct {
			who jobs.Principal
			bulk.Request
		}{
			"tier": {s.Admin, bulk.Request{Action: joblist.BulkSetTier}},
			"":     {s.Client, bulk.Request{Action: joblist.BulkSetTier, Tier: models.TierBatch}},
		} {
			_, err := s.Bulk.Start(t.Context(), r.who, r.Request)
			if field == "" {
				jobstest.RequireCode(t, err, apierror.CodeForbidden)
				continue
			}
			jobstest.RequireInvalid(t, err, field)
		}
	})
}
