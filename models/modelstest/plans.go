package modelstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// The queue of a busy day: a few accounts, most with a short queue and one with a long one,
// over a history of ended jobs.
const (
	Accounts = 100
	Queued   = 5_000
	Ended    = 10_000
	Live     = 200
)

func Fill(t testing.TB, db *bun.DB) {
	t.Helper()
	FillWith(t, db, Accounts, Queued, Ended, Live)
}

// FillWith is fill with a choice of the number of rows.
func FillWith(t testing.TB, db *bun.DB, accounts, queued, over, live int) {
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

// LastQuery remembers the text of the newest query.
type LastQuery struct{ Text string }

func (l *LastQuery) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (l *LastQuery) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if !slices.Contains([]string{"BEGIN", "COMMIT"}, e.Query) {
		l.Text = e.Query
	}
}

// Plan is a query's plan, and how many rows of growing tables it read.
type Plan struct {
	Text string
	Rows int
}

// Explain runs a query and returns its plan. It counts rows of the given tables, or else of
// jobs and attempts.
func Explain(t *testing.T, db bun.IDB, query string, tables ...string) Plan {
	t.Helper()
	if len(tables) == 0 {
		tables = []string{"jobs", "job_attempts"}
	}
	var lines []string
	require.NoError(t, db.NewRaw("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) "+strings.ReplaceAll(query, "?", `\?`)).Scan(t.Context(), &lines))
	p := Plan{Text: strings.Join(lines, "\n")}
	reads := false
	for _, line := range lines {
		var rows, loops, removed int
		at := strings.Index(line, "(actual rows=")
		if at >= 0 {
			reads = strings.Contains(line, "Scan") && !strings.Contains(line, "Bitmap Index") &&
				slices.ContainsFunc(tables, func(table string) bool { return strings.Contains(line, " on "+table+" ") })
			if _, err := fmt.Sscanf(line[at:], "(actual rows=%d loops=%d)", &rows, &loops); err == nil && reads {
				p.Rows += rows * loops
			}
		}
		if at = strings.Index(line, "Rows Removed by Filter: "); at >= 0 && reads {
			if _, err := fmt.Sscanf(line[at:], "Rows Removed by Filter: %d", &removed); err == nil {
				p.Rows += removed
			}
		}
	}
	return p
}
