package backlog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

func TestHotQueries(t *testing.T) {
	t.Parallel()

	t.Run("ReadOnlyTheRowsOfTheirResult", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.Fill(t, db)
		last := &modelstest.LastQuery{}
		watched := db.WithQueryHook(last)
		one := models.AccountID("acc_c4ca4238-a0b9-2382-0dcc-509a6f75849b")
		first := models.AccountID("acc_8a8bb7cd-343a-a2ad-99b7-d762030857a2") // a1

		var ahead models.JobID // the last of the longest queue
		require.NoError(t, db.NewRaw(`SELECT id FROM jobs WHERE status = 'QUEUED' AND account_id = md5('a1')::uuid ORDER BY queue_order DESC LIMIT 1`).Scan(t.Context(), &ahead))

		_, err := db.ExecContext(t.Context(), `UPDATE jobs SET lane = 'BATCH' WHERE id IN (SELECT job_id FROM job_attempts WHERE ended_at IS NULL)`)
		require.NoError(t, err)
		cases := map[string]struct {
			run func() error
			// scans is how many rows of jobs or attempts the query may read.
			scans int
		}{
			"NextJobs": {func() error {
				_, err := backlog.NextJobs(t.Context(), db, everyQueue(), nil, nil, 8)
				last.Text = picking(t, backlog.NextJobsSQL, everyQueue())
				return err
			}, 1 + 8 + 1}, // one row finds the line, and one more ends it
			"NextJobs, of an account that is far behind": {func() error {
				_, err := db.ExecContext(t.Context(), `UPDATE account_lanes SET virtual_time = 1e6 WHERE account_id = md5('a1')::uuid`)
				require.NoError(t, err)
				found, err := backlog.NextJobs(t.Context(), db, everyQueue(), []models.AccountID{first}, nil, 8)
				require.Len(t, found, 1)
				require.Equal(t, first, found[0].AccountID)
				last.Text = picking(t, backlog.NextJobsSQL, everyQueue(), first)
				return err
			}, 1 + 1},
			"ListQueuedJobs": {func() error {
				_, err := backlog.ListQueuedJobs(t.Context(), watched, 100)
				return err
			}, modelstest.Queued/2 + 100 + 2*modelstest.Accounts},
			"ListImpatientJobs": {func() error {
				_, err := backlog.ListImpatientJobs(t.Context(), watched, models.TierPro, models.TierPro, models.TierEnterprise, time.Hour, 200)
				return err
			}, 1}, // one of each model
			"ListLinedUp": {func() error {
				_, err := backlog.ListLinedUp(t.Context(), watched, []backlog.LineUp{
					{Lane: models.TierPro, Queues: []models.Queue{{Line: models.Line{Lane: models.TierPro}, Model: "testcard"}}},
					{Lane: models.TierPro, Queues: []models.Queue{{Line: models.Line{Lane: models.TierPro}, Model: "testcard"}}, AccountID: one},
				}, 101)
				return err
			}, modelstest.Queued + modelstest.Accounts}, // and the first of each account
			"ListExpiredAttempts": {func() error {
				_, err := models.ListExpiredAttempts(t.Context(), watched, 200)
				return err
			}, modelstest.Live},
			"LockDueJobs": {func() error {
				return watched.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
					_, err := models.LockDueJobs(ctx, tx, models.TierPro, models.DuePlace{}, 100)
					return err
				})
			}, 0},
			"ListJobs": {func() error {
				_, err := joblist.ListJobs(t.Context(), watched, joblist.JobFilter{AccountID: one}, "", 51)
				return err
			}, 200},
			"ListJobsByStatus": {func() error {
				_, err := joblist.ListJobs(t.Context(), watched, joblist.JobFilter{Status: []models.JobStatus{models.JobFailed}}, "", 51)
				return err
			}, 200},
			"FindLiveAttempt": {func() error {
				_, err := models.FindLiveAttempt(t.Context(), watched, models.NewWorkerID())
				require.ErrorIs(t, err, sql.ErrNoRows)
				return nil
			}, 0},
			"ListHands": {func() error {
				const page = 50
				found := map[backlog.Slot]bool{}
				for last, more := (backlog.Slot{}), true; more; {
					hands, err := backlog.ListWorkerViews(t.Context(), db, last, page)
					require.NoError(t, err)
					for _, h := range hands {
						last, found[h.Slot] = h.Slot, true
					}
					more = len(hands) > 0
				}
				require.Len(t, found, modelstest.Live)
				_, err := backlog.ListWorkerViews(t.Context(), watched, backlog.Slot{}, page)
				return err
			}, 4 * 50}, // the attempts of each job, too, since a job of this lane may yield
			"CountOwnAhead": {func() error {
				found, err := backlog.CountOwnAhead(t.Context(), watched, []models.JobID{ahead}, 50)
				require.Len(t, found, 1)
				require.Equal(t, 50, found[0].Count)
				return err
			}, 52},
		}
		outdated := []string{ // a young installation, whose statistics are from before its first attempts ended
			`CREATE TABLE ended AS SELECT * FROM job_attempts WHERE ended_at IS NOT NULL`,
			`DELETE FROM job_attempts WHERE ended_at IS NOT NULL`,
			`ANALYZE job_attempts`,
			`INSERT INTO job_attempts SELECT * FROM ended`,
		}
		for _, statistics := range [][]string{nil, outdated} {
			for _, query := range statistics {
				_, err := db.ExecContext(t.Context(), query)
				require.NoError(t, err)
			}
			for name, c := range cases {
				require.NoError(t, c.run(), name)

				plan := modelstest.Explain(t, db, last.Text)

				require.NotContains(t, plan.Text, "Seq Scan on jobs", name)
				require.NotContains(t, plan.Text, "Seq Scan on job_attempts", name)
				require.LessOrEqual(t, plan.Rows, c.scans, "%s reads too much:\n%s", name, plan.Text)
			}
		}
	})

	t.Run("ReadDueJobsInOrderWithoutSorting", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.Fill(t, db)
		last := &modelstest.LastQuery{}
		watched := db.WithQueryHook(last)
		due := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
		_, err := db.NewRaw(`
			INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, run_at)
			SELECT md5('d' || i)::uuid, md5('a1')::uuid, 'video.generate', 'testcard', 'SCHEDULED', 'PRO', CASE WHEN i % 2 = 0 THEN 'PRO' ELSE 'FREE' END,
				'{}', 3, 600, 5, CASE WHEN i <= 3000 THEN ? ELSE now() + make_interval(hours => i) END FROM generate_series(1, 6000) i`,
			due).Exec(t.Context())
		require.NoError(t, err)
		for _, known := range []string{"SELECT", "ANALYZE jobs"} { // with statistics from before, and with new ones
			_, err := db.ExecContext(t.Context(), known)
			require.NoError(t, err)
			var plan modelstest.Plan
			require.NoError(t, watched.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				return models.ReadInOrder(ctx, tx, func() error {
					// Many wait for one time: PostgreSQL expects few of them.
					found, err := models.LockDueJobs(ctx, tx, models.TierPro, models.DuePlace{RunAt: due, Order: 1}, 1000)
					require.Len(t, found, 1000)
					plan = modelstest.Explain(t, tx, last.Text)
					return err
				})
			}))
			require.Contains(t, plan.Text, "jobs_due")
			require.NotContains(t, plan.Text, "Sort")
			require.LessOrEqual(t, plan.Rows, 1000, plan.Text)
		}
	})

	t.Run("SkipAccountsAtTheirLimit", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		modelstest.Fill(t, db)
		for _, query := range []string{
			`UPDATE accounts SET max_running = 0 WHERE id <> md5('a8')::uuid`,
			`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute)
				SELECT md5('c' || i)::uuid, 'c' || i, 'PRO', 1, 0, 1 FROM generate_series(1, 2000) i`,
			`INSERT INTO account_lanes (account_id, lane, queued, virtual_time, capped)
				SELECT md5('c' || i)::uuid, 'PRO', 1, -1, true FROM generate_series(1, 2000) i`,
			`ANALYZE`,
		} {
			_, err := db.ExecContext(t.Context(), query)
			require.NoError(t, err)
		}

		found, err := backlog.NextJobs(t.Context(), db, everyQueue(), nil, nil, 8)

		require.NoError(t, err)
		require.Len(t, found, 1)
		plan := modelstest.Explain(t, db, picking(t, backlog.NextJobsSQL, everyQueue()))
		require.Equal(t, 2, plan.Rows, plan.Text) // once to find the line, once to read it
		require.NotContains(t, plan.Text, "Seq Scan on account_lanes")
	})
}

// everyQueue returns the queues that a worker with the test card reads.
func everyQueue() []models.Queue {
	var queues []models.Queue
	for _, lane := range models.Tiers {
		for _, promoted := range []bool{false, true} {
			queues = append(queues, models.Queue{Line: models.Line{Lane: lane, Promoted: promoted}, Model: "testcard"})
		}
	}
	return queues
}

// picking returns a statement that picks 8 jobs of queues, of these accounts if
// there are any. bun's hooks do not see it.
func picking(t *testing.T, statement func([]models.AccountID) string, queues []models.Queue, accounts ...models.AccountID) string {
	t.Helper()
	asked := make([]map[string]any, len(queues))
	for i, q := range queues {
		asked[i] = map[string]any{"place": i, "lane": q.Lane, "promoted": q.Promoted, "model": q.Model, "gpu_rank": q.GPURank, "region": q.Region,
			"needs": q.Needs}
	}
	encoded, err := json.Marshal(asked)
	require.NoError(t, err)
	var ids []string
	for _, id := range accounts {
		ids = append(ids, strings.TrimPrefix(string(id), "acc_"))
	}
	return strings.NewReplacer("@accounts", "'{"+strings.Join(ids, ",")+"}'", "@queues", "'"+string(encoded)+"'", "@passed", "'{}'", "@most",
		"8").Replace(statement(accounts))
}
