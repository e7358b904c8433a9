package backlog_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// deep is how many jobs of one account are queued in one line. Of every 20, one is of the
// model rare and one of another GPU class.
const (
	deep  = 24_000
	lined = modelstest.Accounts/2 + 1          // accounts that have queued jobs
	inOne = modelstest.Queued + deep - deep/20 // jobs of the model testcard
)

func fillDeep(t testing.TB, db *bun.DB) {
	t.Helper()
	modelstest.Fill(t, db)
	for from := 0; from < deep; from += 6_000 { // each statement within the statement timeout
		_, err := db.NewRaw(`
			INSERT INTO jobs (id, account_id, type, model, status, tier, lane, gpu_rank, params, time_class, max_attempts, timeout_seconds, estimated_gpu_seconds, queued_at, user_id)
			SELECT md5('d' || i)::uuid, md5('a1')::uuid, 'video.generate', CASE WHEN i % 20 = 0 THEN 'rare' ELSE 'testcard' END, 'QUEUED', 'PRO', 'PRO',
				CASE WHEN i % 20 = 1 THEN 1 ELSE 0 END, jsonb_build_object('resolution', '720p', 'durationSeconds', 1 + i % 2), '720p,' || 1 + i % 2, 3, 600, 5,
				now() - make_interval(secs => 600 - i % 600), 'crowd' FROM generate_series(?0 + 1, ?0 + 6000) i`, from).Exec(t.Context())
		require.NoError(t, err)
	}
	for _, query := range []string{
		`UPDATE account_lanes SET queued = (
			SELECT count(*) FROM jobs j WHERE j.account_id = account_lanes.account_id AND j.status = 'QUEUED')`,
		`UPDATE jobs SET user_id = 'crowd', account_id = md5('a1')::uuid WHERE status = 'FAILED'`,
	} {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
}

func TestDeepQueues(t *testing.T) {
	t.Parallel()

	t.Run("CostOnlyTheRequestedRows", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fillDeep(t, db)
		last := &modelstest.LastQuery{}
		watched := db.WithQueryHook(last)
		one := models.AccountID("acc_8a8bb7cd-343a-a2ad-99b7-d762030857a2") // a1
		var newest models.JobID
		require.NoError(t, db.NewRaw(`SELECT id FROM jobs WHERE status = 'QUEUED' AND account_id = md5('a1')::uuid ORDER BY queue_order DESC LIMIT 1`).Scan(t.Context(), &newest))

		type picks = func(context.Context, bun.IDB, []models.Queue, []models.AccountID, []models.JobID, int) ([]backlog.QueuedJob, error)
		pick := func(by picks, statement func([]models.AccountID) string, model string, accounts ...models.AccountID) error {
			queues := everyQueue()
			for i := range queues {
				queues[i].Model = model
			}
			found, err := by(t.Context(), db, queues, accounts, nil, 8)
			require.NotEmpty(t, found)
			last.Text = picking(t, statement, queues, accounts...)
			return err
		}
		asked := map[string]struct {
			run func() error
			// scans is how many rows of jobs the query may read.
			scans int
		}{
			"NextJobs":                     {func() error { return pick(backlog.NextJobs, backlog.NextJobsSQL, "testcard") }, 1 + 8 + 1},
			"NextInOrder":                  {func() error { return pick(backlog.NextInOrder, backlog.NextInOrderSQL, "testcard") }, 1 + 8 + 8*8},
			"NextInOrder, of a rare model": {func() error { return pick(backlog.NextInOrder, backlog.NextInOrderSQL, "rare") }, 1 + 8 + 8*8},
			"NextJobs, of an account":      {func() error { return pick(backlog.NextJobs, backlog.NextJobsSQL, "rare", one) }, 1 + 1},
			"NextInOrder, of an account":   {func() error { return pick(backlog.NextInOrder, backlog.NextInOrderSQL, "rare", one) }, 1 + 1 + 8},
			"ListStandby": {func() error {
				found, err := backlog.ListStandby(t.Context(), watched, nil, 500, 20)
				require.Equal(t, 20*lined, len(found))
				return err
			}, 20 * lined},
			"CountOwnAhead": {func() error {
				_, err := backlog.CountOwnAhead(t.Context(), watched, []models.JobID{newest}, 50)
				return err
			}, 52},
			"ListQueuedJobs": {func() error {
				found, err := backlog.ListQueuedJobs(t.Context(), watched, 10)
				require.Equal(t, 10*(lined+2), len(found))
				return err
			}, 12 * (lined + 2)},
			"ListImpatientJobs": {func() error {
				found, err := backlog.ListImpatientJobs(t.Context(), watched, models.TierPro, models.TierPro, models.TierEnterprise, 5*time.Minute, 200)
				require.Equal(t, 200, len(found))
				return err
			}, 2*200 + 5},
			"CountQueues": {func() error {
				found, err := backlog.CountQueues(t.Context(), watched)
				require.Len(t, found, 2)
				require.Equal(t, []any{"rare", deep / 20, 5.0 * deep / 20}, []any{found[0].Model, found[0].Depth, found[0].GPUSeconds})
				require.Equal(t, []any{"testcard", inOne, 5.0 * inOne}, []any{found[1].Model, found[1].Depth, found[1].GPUSeconds})
				require.InDelta(t, 600, *found[1].OldestWaitSeconds, 60)
				return err
			}, 10_000 + deep/20 + 2*1000 + 5},
			"ListLaneShares": {func() error {
				found, err := backlog.ListLaneShares(t.Context(), watched, models.TierPro, 5)
				require.Len(t, found, 5)
				require.Equal(t, one, found[0].AccountID, "it has the most jobs")
				return err
			}, 0},
			"ListLaneHeads": {func() error {
				found, err := backlog.ListLaneHeads(t.Context(), watched, models.TierPro, 5)
				require.Len(t, found, 5)
				return err
			}, 5 * 5},
			"CountUserQueues": {func() error {
				counts, err := backlog.CountUserQueues(t.Context(), watched, []backlog.UserQueue{{AccountID: one, UserID: "crowd"},
					{AccountID: one, UserID: "nobody"}}, []int{100, 100})
				require.Equal(t, []int{100, 0}, counts)
				return err
			}, 100},
			"AccountDemands": {func() error {
				found, err := backlog.AccountDemands(t.Context(), watched, []string{"testcard", "rare", "none"},
					[]models.AccountID{one, models.NewAccountID()})
				sum := map[string]float64{}
				for _, q := range found {
					require.Equal(t, one, q.AccountID)
					require.InDelta(t, 5*q.Depth, q.GPUSeconds, 0.01)
					sum[q.Model] += q.Depth
				}
				require.Equal(t, map[string]float64{"testcard": 10_000, "rare": deep / 20}, sum)
				return err
			}, 10_000 + deep/20 + 2*1000},
			"QueueDemands": {func() error {
				found, err := backlog.QueueDemands(t.Context(), watched, []string{"testcard"})
				require.Len(t, found, 2, "videos of 1 s and of 2 s")
				require.InDelta(t, inOne, found[0].Depth+found[1].Depth, 0.01)
				require.InDelta(t, 5*inOne, found[0].GPUSeconds+found[1].GPUSeconds, 0.01)
				return err
			}, 10_000 + deep/20 + 1000 + 5},
		}
		// with statistics from before the burst, and with new ones
		for _, known := range []string{"SELECT", "VACUUM ANALYZE jobs, account_lanes"} {
			_, err := db.ExecContext(t.Context(), known)
			require.NoError(t, err)
			for name, c := range asked {
				require.NoError(t, c.run(), name)

				plan := modelstest.Explain(t, db, last.Text)

				require.NotContains(t, plan.Text, "Seq Scan on jobs", name)
				require.LessOrEqual(t, plan.Rows, c.scans, "%s reads too much:\n%s", name, plan.Text)
			}
		}
	})
}

// TestIndexOrder holds what claims in a table without statistics rely on: of two indexes that cost the
// same, PostgreSQL takes the older one.
func TestIndexOrder(t *testing.T) {
	t.Parallel()

	var inOrder bool
	require.NoError(t, modelstest.DB(t).NewRaw("SELECT 'jobs_in_line'::regclass::oid < 'jobs_next_in_queue'::regclass::oid").
		Scan(t.Context(), &inOrder))

	require.True(t, inOrder, "600 leases take 3.2 s instead of 1.8 the other way round")
}
