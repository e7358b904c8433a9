package models_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// The queue of a busy day: a few accounts, most with a short queue and one with a long one,
// over a history of ended jobs.
const (
	accounts = 100
	queued   = 5_000
	over     = 10_000
	live     = 200
)

func fill(t testing.TB, db *bun.DB) {
	t.Helper()
	fillWith(t, db, accounts, queued, over, live)
}

// fillWith is fill with a choice of the number of rows.
func fillWith(t testing.TB, db *bun.DB, accounts, queued, over, live int) {
	t.Helper()
	for _, query := range []string{
		`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute, queued, running)
			SELECT md5('a' || i)::uuid, 'a' || i, 'PRO', 1e6, 1e6, 1e6, 0, 0 FROM generate_series(1, %[1]d) i`,
		`INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, queued_at)
			SELECT md5('q' || i)::uuid, md5('a' || CASE WHEN i %% 2 = 0 THEN 1 ELSE 1 + i %% %[1]d END)::uuid, 'video.generate', 'testcard', 'QUEUED',
				'PRO', 'PRO', '{}', 3, 600, 5, now() FROM generate_series(1, %[2]d) i`,
		`INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds, failure_class, completed_at)
			SELECT md5('o' || i)::uuid, md5('a' || 1 + i %% %[1]d)::uuid, 'video.generate', 'testcard', 'FAILED',
				'PRO', 'PRO', '{}', 3, 600, 5, 'TRANSIENT', now() FROM generate_series(1, %[3]d) i`,
		`INSERT INTO account_lanes (account_id, lane, queued, virtual_time)
			SELECT account_id, lane, count(*), random() * 1000 FROM jobs WHERE status = 'QUEUED' GROUP BY 1, 2`,
		`INSERT INTO workers (id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, last_heartbeat_at)
			SELECT md5('w' || i)::uuid, 'p', 'w' || i, 'r', 'g', 'SPOT', '{testcard}', 'BUSY', now() FROM generate_series(1, %[4]d) i`,
		`INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at, ended_at, failure_class)
			SELECT gen_random_uuid(), md5('o' || i)::uuid, 1, 1, md5('w' || 1 + i %% %[4]d)::uuid, gen_random_uuid(),
				CASE WHEN i <= %[4]d THEN 'RUNNING' ELSE 'FAILED' END, now(), now() + CASE WHEN i %% 20 = 0 THEN interval '-1 s' ELSE interval '1 h' END,
				CASE WHEN i <= %[4]d THEN NULL ELSE now() END, 'TRANSIENT' FROM generate_series(1, %[3]d) i`,
		`ANALYZE`,
	} {
		if strings.Contains(query, "%[") {
			query = fmt.Sprintf(query, accounts, queued, over, live)
		}
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
}

// lastQuery remembers the text of the newest query.
type lastQuery struct{ text string }

func (l *lastQuery) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }
func (l *lastQuery) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if !slices.Contains([]string{"BEGIN", "COMMIT"}, e.Query) {
		l.text = e.Query
	}
}

func TestHotQueries(t *testing.T) {
	t.Parallel()

	t.Run("ReadOnlyTheRowsOfTheirResult", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fill(t, db)
		last := &lastQuery{}
		watched := db.WithQueryHook(last)
		one := models.AccountID("acc_c4ca4238-a0b9-2382-0dcc-509a6f75849b")
		first := models.AccountID("acc_8a8bb7cd-343a-a2ad-99b7-d762030857a2") // a1

		var ahead models.JobID // the last of the longest queue
		require.NoError(t, db.NewRaw(`SELECT id FROM jobs WHERE status = 'QUEUED' AND account_id = md5('a1')::uuid ORDER BY queue_order DESC LIMIT 1`).Scan(t.Context(), &ahead))

		for name, c := range map[string]struct {
			run func() error
			// scans is how many rows of jobs or attempts the query may read.
			scans int
		}{
			"NextJobs": {func() error {
				_, err := models.NextJobs(t.Context(), db, everyQueue(), nil, nil, 8)
				last.text = picking(t, models.NextJobsSQL, everyQueue())
				return err
			}, 1 + 8 + 1}, // one row finds the line, and one more ends it
			"NextJobs, of an account that is far behind": {func() error {
				_, err := db.ExecContext(t.Context(), `UPDATE account_lanes SET virtual_time = 1e6 WHERE account_id = md5('a1')::uuid`)
				require.NoError(t, err)
				found, err := models.NextJobs(t.Context(), db, everyQueue(), []models.AccountID{first}, nil, 8)
				require.Len(t, found, 1)
				require.Equal(t, first, found[0].AccountID)
				last.text = picking(t, models.NextJobsSQL, everyQueue(), first)
				return err
			}, 1 + 1},
			"ListQueuedJobs": {func() error {
				_, err := models.ListQueuedJobs(t.Context(), watched, 100)
				return err
			}, queued/2 + 100 + 2*accounts},
			"ListImpatientJobs": {func() error {
				_, err := models.ListImpatientJobs(t.Context(), watched, models.TierPro, models.TierPro, models.TierEnterprise, time.Hour, 200)
				return err
			}, 1}, // one of each model
			"ListLinedUp": {func() error {
				_, err := models.ListLinedUp(t.Context(), watched, []models.LineUp{
					{Lane: models.TierPro, Models: []string{"testcard"}},
					{Lane: models.TierPro, Models: []string{"testcard"}, AccountID: one},
				}, 101)
				return err
			}, queued + accounts}, // and the first of each account
			"ListExpiredAttempts": {func() error {
				_, err := models.ListExpiredAttempts(t.Context(), watched, 200)
				return err
			}, live},
			"LockDueJobs": {func() error {
				return watched.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
					_, err := models.LockDueJobs(ctx, tx, models.TierPro, models.DuePlace{}, 100)
					return err
				})
			}, 0},
			"ListJobs": {func() error {
				_, err := models.ListJobs(t.Context(), watched, models.JobFilter{AccountID: one}, "", 51)
				return err
			}, 200},
			"ListJobsByStatus": {func() error {
				_, err := models.ListJobs(t.Context(), watched, models.JobFilter{Status: []models.JobStatus{models.JobFailed}}, "", 51)
				return err
			}, 200},
			"FindLiveAttempt": {func() error {
				_, err := models.FindLiveAttempt(t.Context(), watched, models.NewWorkerID())
				require.ErrorIs(t, err, sql.ErrNoRows)
				return nil
			}, 0},
			"ListHands": {func() error {
				const page = 50
				found := map[models.Slot]bool{}
				for last, more := (models.Slot{}), true; more; {
					hands, err := models.ListWorkerViews(t.Context(), db, last, page)
					require.NoError(t, err)
					for _, h := range hands {
						last, found[h.Slot] = h.Slot, true
					}
					more = len(hands) > 0
				}
				require.Len(t, found, live)
				_, err := models.ListWorkerViews(t.Context(), watched, models.Slot{}, page)
				return err
			}, 3 * 50},
			"CountOwnAhead": {func() error {
				found, err := models.CountOwnAhead(t.Context(), watched, []models.JobID{ahead}, 50)
				require.Len(t, found, 1)
				require.Equal(t, 50, found[0].Count)
				return err
			}, 52},
		} {
			require.NoError(t, c.run(), name)

			plan := explain(t, db, last.text)

			require.NotContains(t, plan.text, "Seq Scan on jobs", name)
			require.NotContains(t, plan.text, "Seq Scan on job_attempts", name)
			require.LessOrEqual(t, plan.rows, c.scans, "%s reads too much:\n%s", name, plan.text)
		}
	})

	t.Run("ReadDueJobsInOrderWithoutSorting", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fill(t, db)
		last := &lastQuery{}
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
			var plan planned
			require.NoError(t, watched.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				return models.ReadInOrder(ctx, tx, func() error {
					// Many wait for one time: PostgreSQL expects few of them.
					found, err := models.LockDueJobs(ctx, tx, models.TierPro, models.DuePlace{RunAt: due, Order: 1}, 1000)
					require.Len(t, found, 1000)
					plan = explain(t, tx, last.text)
					return err
				})
			}))
			require.Contains(t, plan.text, "jobs_due")
			require.NotContains(t, plan.text, "Sort")
			require.LessOrEqual(t, plan.rows, 1000, plan.text)

			wait, err := models.UntilDue(t.Context(), watched, 100_000*time.Hour)
			require.NoError(t, err)
			require.InDelta(t, 3001*time.Hour, wait, float64(time.Minute))
			plan = explain(t, db, last.text)
			require.Contains(t, plan.text, "jobs_due")
			require.LessOrEqual(t, plan.rows, len(models.Tiers), plan.text)
		}
	})

	t.Run("SkipAccountsAtTheirLimit", func(t *testing.T) {
		t.Parallel()

		db := modelstest.DB(t)
		fill(t, db)
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

		found, err := models.NextJobs(t.Context(), db, everyQueue(), nil, nil, 8)

		require.NoError(t, err)
		require.Len(t, found, 1)
		plan := explain(t, db, picking(t, models.NextJobsSQL, everyQueue()))
		require.Equal(t, 2, plan.rows, plan.text) // once to find the line, once to read it
		require.NotContains(t, plan.text, "Seq Scan on account_lanes")
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

// planned is a query's plan, and how many rows of growing tables it read.
type planned struct {
	text string
	rows int
}

// explain runs a query and returns its plan. It counts rows of the given tables, or else of
// jobs and attempts.
func explain(t *testing.T, db bun.IDB, query string, tables ...string) planned {
	t.Helper()
	if len(tables) == 0 {
		tables = []string{"jobs", "job_attempts"}
	}
	var lines []string
	require.NoError(t, db.NewRaw("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) "+strings.ReplaceAll(query, "?", `\?`)).Scan(t.Context(), &lines))
	p := planned{text: strings.Join(lines, "\n")}
	reads := false
	for _, line := range lines {
		var rows, loops, removed int
		at := strings.Index(line, "(actual rows=")
		if at >= 0 {
			reads = strings.Contains(line, "Scan") && !strings.Contains(line, "Bitmap Index") &&
				slices.ContainsFunc(tables, func(table string) bool { return strings.Contains(line, " on "+table+" ") })
			if _, err := fmt.Sscanf(line[at:], "(actual rows=%d loops=%d)", &rows, &loops); err == nil && reads {
				p.rows += rows * loops
			}
		}
		if at = strings.Index(line, "Rows Removed by Filter: "); at >= 0 && reads {
			if _, err := fmt.Sscanf(line[at:], "Rows Removed by Filter: %d", &removed); err == nil {
				p.rows += removed
			}
		}
	}
	return p
}
