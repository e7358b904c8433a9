package erase_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/erasure"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// death cancels the statements after the first ones, as the end of the process would.
type death struct{ left atomic.Int64 }

func newDeath(after int) *death {
	d := new(death)
	d.left.Store(int64(after))
	return d
}

func (d *death) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	if d.left.Add(-1) >= 0 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func (*death) AfterQuery(context.Context, *bun.QueryEvent) {}

func TestPass(t *testing.T) {
	t.Parallel()

	t.Run("WaitsForARunningJobAsACancelDoes", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		start(t, s)

		r := pass(t, s)

		require.Equal(t, 1, r.Unfinished)
		require.Equal(t, 1, count(r, erasure.Cancelled))
		require.False(t, s.Reload(t, job.ID).CancelRequestedAt.IsZero())
		_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Equal(t, models.JobCancelled, s.Reload(t, job.ID).Status, "the worker completes it while it is deleted")
		over := finish(t, s)
		require.Equal(t, 1, count(over, erasure.Jobs))
		require.Equal(t, 1, over.Deletion.Kept[erasure.Ledger])
		_, err = s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.Error(t, err)
		var known *apierror.Error
		require.ErrorAs(t, err, &known, "a late worker is told so")
		s.RequireRows(t)
	})

	t.Run("IsStuckWhileItOnlyWaits", func(t *testing.T) {
		t.Parallel()

		s, _, worker, fence := jobstest.Leased(t)
		start(t, s)
		pass(t, s)
		stuck := func() int {
			h, err := alerts.ReadHealth(t.Context(), s.DB, time.Minute, 1)
			require.NoError(t, err)
			return h.DeletionsStuck
		}
		require.Zero(t, stuck())

		s.Exec(t, "UPDATE account_deletions SET progress_at = clock_timestamp() - interval '2 hours', next_at = clock_timestamp()")
		pass(t, s)
		require.Equal(t, 1, stuck(), "to wait for a job is no progress")

		_, _ = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy})
		finish(t, s)
		require.Zero(t, stuck())
	})

	t.Run("LeavesAWorkerThatIsGoneToTheReaper", func(t *testing.T) {
		t.Parallel()

		s, job, _, fence := jobstest.Leased(t)
		start(t, s)
		require.False(t, pass(t, s).Finished())
		s.ExpireLease(t, fence.AttemptID)
		_, err := s.Reaper.Reap(t.Context())
		require.NoError(t, err)
		require.Equal(t, models.JobCancelled, s.Reload(t, job.ID).Status)

		require.Equal(t, 1, count(finish(t, s), erasure.Jobs))
	})

	t.Run("WaitsWhileAProviderMayWorkOnAJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := jobstest.CancelledJob(t, s)
		s.Exec(t, `INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers)
			VALUES (?, 'hosted', 'p', 'r', 'g', 'ON_DEMAND', '{testcard}', 0, 1)`, models.NewPoolID())
		s.Exec(t, "INSERT INTO provider_accounts (pool_id, concurrent, per_minute) SELECT id, 1, 60 FROM pools")
		s.Exec(t, `INSERT INTO provider_slots (job_id, pool_id, expires_at)
			SELECT ?, id, clock_timestamp() + interval '1 hour' FROM pools`, job.ID)
		start(t, s)
		require.False(t, pass(t, s).Finished(), "its slot limits what other jobs the provider gets")
		s.Exec(t, "UPDATE provider_slots SET expires_at = clock_timestamp()")

		finish(t, s)
	})

	t.Run("ContinuesAfterACrashAtAnyStatement", func(t *testing.T) {
		t.Parallel()

		s, _ := furnish(t)
		start(t, s)
		for n := 1; ; n++ {
			require.Less(t, n, 2000, "the deletion does not end")
			db := s.DB.WithQueryHook(newDeath(n))
			canceller := &operate.Canceller{DB: db, Notifier: s.Notifier}
			s.Exec(t, "UPDATE account_deletions SET next_at = clock_timestamp()")
			_, err := (&erase.Eraser{DB: db, Canceller: canceller, Notifier: s.Notifier, ObjectsGone: time.Hour}).Pass(t.Context())
			if report(t, s).Finished() {
				break
			}
			require.ErrorIs(t, err, context.Canceled)
		}

		over := report(t, s)

		require.Equal(t, 8, count(over, erasure.Jobs), "what was rolled back was not counted")
		require.Equal(t, 2, count(over, erasure.Workflows))
		require.Equal(t, s.Count(t, "ledger"), over.Deletion.Kept[erasure.Ledger])
		for _, table := range gone {
			require.Zero(t, s.Count(t, table), table)
		}
		s.RequireRows(t)
	})

	t.Run("IsSharedByManyProcesses", func(t *testing.T) {
		t.Parallel()

		s, _ := furnish(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierPro), access.RoleClient)
		mine := jobstest.SubmitAs(t, s, other, nil)
		start(t, s)
		_, err := s.Eraser.Start(t.Context(), s.Admin, other.AccountID, "other")
		require.NoError(t, err)
		for range 20 {
			s.Exec(t, "UPDATE account_deletions SET next_at = clock_timestamp()")
			jobstest.Together(t, 3, s.Eraser.Pass)
		}

		over := report(t, s)

		require.True(t, over.Finished())
		require.Equal(t, 8, count(over, erasure.Jobs))
		theirs, err := s.Eraser.Get(t.Context(), s.Admin, other.AccountID)
		require.NoError(t, err)
		require.True(t, theirs.Finished())
		require.Equal(t, 1, count(theirs, erasure.Jobs), mine.ID)
		all, err := s.Eraser.List(t.Context(), s.Admin)
		require.NoError(t, err)
		require.Len(t, all, 2)
		s.RequireRows(t)
	})

	t.Run("BeginsAgainWithAJobThatComesBack", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		start(t, s)
		s.Exec(t, `INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds,
				estimated_gpu_seconds, completed_at)
			VALUES (?, ?, 'video.generate', 'testcard', 'COMPLETED', 'PRO', 'PRO', '{}', 1, 1, 1, now())`, models.NewJobID(), s.Account.ID)

		require.Equal(t, 1, count(finish(t, s), erasure.Jobs))
	})

	t.Run("LeavesTheJobsOfOthers", func(t *testing.T) {
		t.Parallel()

		s, _ := furnish(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierPro), access.RoleClient)
		job := jobstest.SubmitAs(t, s, other, func(in *submit.Submission) { in.UserID = "u1" })
		start(t, s)
		finish(t, s)

		_, fence := s.Lease(t, s.Worker(t, "three"))
		require.NotEmpty(t, fence.AttemptID)
		require.Equal(t, models.JobAssigned, s.Reload(t, job.ID).Status)
		_, err := jobs.VisibleJob(t.Context(), s.DB, other, job.ID)
		require.NoError(t, err)
	})

	t.Run("MergesTheSumsOfUsers", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		tables := map[string]string{"ledger_user_days": "day", "ledger_user_months": "month"}
		for table, span := range tables {
			sum := func(user string, account models.AccountID, attempts int) {
				s.Exec(t, `INSERT INTO ? (account_id, ?, user_id, attempts, completed, unpriced, useful_seconds, wasted_seconds,
					useful_usd, wasted_usd, charged_usd) VALUES (?, '2026-01-01', ?, ?, 1, 0, 1, 1, 0.1, 0.2, 0.3)`,
					bun.Ident(table), bun.Ident(span), account, user, attempts)
			}
			sum("", s.Account.ID, 1)
			sum("u1", s.Account.ID, 2)
			sum("u2", s.Account.ID, 4)
			sum("u1", s.Admin.AccountID, 8)
		}
		start(t, s)
		finish(t, s)

		for table := range tables {
			var rows []string
			require.NoError(t, s.DB.NewRaw(`SELECT concat_ws(' ', user_id, attempts, completed, useful_usd::float,
				wasted_usd::float, charged_usd::float)
				FROM ? ORDER BY attempts`, bun.Ident(table)).Scan(t.Context(), &rows))
			require.Equal(t, []string{" 7 3 0.3 0.6 0.9", "u1 8 1 0.1 0.2 0.3"}, rows, table)
		}
	})
}
