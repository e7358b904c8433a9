// Package history fills a database with past jobs, for measurements of reads: plan tests, and
// the benchmark of lists.
package history

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Accounts, workers and endpoints that every history contains.
const (
	// Big is the account of half of all jobs.
	Big = models.AccountID("acc_8a8bb7cd-343a-a2ad-99b7-d762030857a2")
	// Quiet is a worker with few of the attempts, Busy one with many.
	Quiet = models.WorkerID("wrk_7e75f612-9f58-3b65-6699-d3e99707f311")
	Busy  = models.WorkerID("wrk_a95dcb8a-ebb2-02ef-eedb-10d5538edeb9")
	// few is an account of few jobs.
	few = models.AccountID("acc_c6925622-38d8-c12c-3243-4c50b96d56ae")
	// Endpoint belongs to Big, and was notified of every tenth job.
	Endpoint = models.WebhookEndpointID("whk_cd3dc8b6-cffb-41e4-163d-cbd857ca87da")
)

// batch is how many jobs are written at a time. It takes a second or two.
const batch = 100_000

// prepared are the statements before the first job. They turn off triggers and foreign keys,
// whose work per row would take long.
var prepared = []string{
	`SET session_replication_role = replica`,
	`SET synchronous_commit = off`,
	`SET maintenance_work_mem = '256MB'`,
	`INSERT INTO accounts (id, name, tier, max_queued, max_running, submits_per_minute, queued, running)
		SELECT md5('a' || i)::uuid, 'a' || i, 'PRO', 1e6, 1e6, 1e6, 0, 0 FROM generate_series(1, 50) i`,
	`INSERT INTO workers (id, provider, provider_instance_id, region, gpu_type, capacity_class, models, status, last_heartbeat_at)
		SELECT md5('w' || i)::uuid, 'p', 'w' || i, 'r', 'g', 'SPOT', '{alpha}', 'BUSY', now() FROM generate_series(0, 120) i`,
	`INSERT INTO webhook_endpoints (id, account_id, url, events, secret, secret_key)
		SELECT md5('e' || i)::uuid, md5('a' || i)::uuid, 'https://example.com/' || i, '{job.completed}', '', '' FROM generate_series(1, 50) i`,
}

// written are the statements for the jobs from ?1 to ?2 of ?0. The newest was submitted at ?3,
// and each job a second before the next. A few values are rare, and a few pairs of frequent
// values never occur together: no job of the model alpha is FREE.
var written = []string{
	`CREATE TEMP TABLE made AS SELECT *,
			overlay(uuid7_floor(at)::text PLACING '7000-8000-' || lpad(to_hex(i), 12, '0') FROM 15)::uuid AS id,
			md5('a' || CASE WHEN i % 2 = 0 THEN 1 ELSE 1 + i % 50 END)::uuid AS account_id,
			CASE WHEN i % 3 = 0 THEN 'alpha' WHEN i % 3 = 1 THEN 'beta' ELSE 'gamma-' || i % 4 END AS model,
			CASE WHEN status = 'FAILED' THEN CASE WHEN i % 10007 = 0 THEN 'POISON' WHEN i % 2 = 0 THEN 'TIMEOUT' ELSE 'MODEL_CRASH' END END AS class,
			CASE WHEN i % 6 = 0 THEN jsonb_build_object('campaign', 'c' || i % 5000, 'stage', 'prod', 'deep', jsonb_build_object('x', 'hidden')) END AS metadata
		FROM (SELECT i, ?3::timestamptz - make_interval(secs => ?0 - i) AS at,
			CASE WHEN i > ?0 - 3000 AND i % 30 = 1 THEN 'RUNNING' WHEN i > ?0 - ?0 / 100 THEN 'QUEUED' WHEN i % 5003 = 0 THEN 'SCHEDULED'
				WHEN i % 31 = 0 THEN 'FAILED' WHEN i % 17 = 0 THEN 'CANCELLED' ELSE 'COMPLETED' END AS status
			FROM generate_series(?1, ?2) i) numbered`,
	`INSERT INTO jobs (id, account_id, type, model, status, tier, lane, params, max_attempts, timeout_seconds, estimated_gpu_seconds,
			run_at, queued_at, leased_at, completed_at, failure_class, user_id, idempotency_key, request_digest, metadata, wasted_gpu_seconds, created_at,
			cancel_requested_at, current_attempt_id, result_id, latest_checkpoint_id, ticket)
		SELECT id, account_id, CASE WHEN i % 20011 = 0 THEN 'still.generate' ELSE 'video.generate' END, model, status,
			CASE WHEN i % 3 > 0 AND i % 7 < 3 THEN 'FREE' WHEN i % 7 < 6 THEN 'PRO' ELSE 'BATCH' END, 'PRO',
			'{"steps": 30, "resolution": "1280x720", "durationSeconds": 8}', 3, 600, 5,
			at, CASE WHEN status = 'QUEUED' THEN at END, CASE WHEN status = 'RUNNING' THEN at END, CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN at END, class,
			CASE WHEN i % 5 = 0 THEN 'user-' || i % 1000 WHEN i % 5 = 1 THEN 'crowd' END,
			CASE WHEN i % 4 = 0 THEN 'key-' || i END, CASE WHEN i % 4 = 0 THEN '\x00'::bytea END, metadata,
			CASE WHEN i % 900 = 0 THEN i % 100 ELSE 0 END, at,
			CASE WHEN status = 'CANCELLED' THEN at END, CASE WHEN status = 'RUNNING' THEN id END,
			CASE WHEN status = 'COMPLETED' THEN id END, CASE WHEN i % 10 = 0 OR status = 'RUNNING' THEN overlay(id::text PLACING 'a' FROM 20)::uuid END, i
		FROM made`,
	`INSERT INTO artifacts (id, job_id, account_id, attempt_id, type, object_key, size_bytes, checksum, content_type, step, percent, created_at, review_at)
		SELECT id, job_id, account_id, CASE WHEN status IN ('COMPLETED', 'FAILED', 'RUNNING') THEN job_id END, type, id::text, 1e6, 'c', content_type, step, step, at, at + interval '30 days'
		FROM (SELECT id, id AS job_id, account_id, status, at, 'FINAL_VIDEO' AS type, 'video/mp4' AS content_type, NULL::integer AS step FROM made WHERE status = 'COMPLETED'
			UNION ALL
			SELECT overlay(id::text PLACING 'a' FROM 20)::uuid, id, account_id, status, at + interval '1 s', 'CHECKPOINT', 'application/octet-stream', 10 FROM made
			WHERE i % 10 = 0 OR status = 'RUNNING') made`,
	`INSERT INTO job_words SELECT metadata_words(metadata), account_id, id FROM made WHERE metadata IS NOT NULL`,
	`INSERT INTO job_attempts (id, job_id, run, attempt_no, worker_id, fencing_token, status, leased_at, lease_expires_at, ended_at, failure_class)
		SELECT token, id, 1, no, worker, token, CASE WHEN live THEN 'RUNNING' ELSE 'FAILED' END, at, at + interval '30 s',
			CASE WHEN NOT live THEN at END,
			CASE WHEN i % 310 = 0 THEN 'MODEL_CRASH' WHEN i % 200 = 7 THEN 'WORKER_LOST' WHEN i % 150 = 11 THEN 'PREEMPTED' ELSE 'TRANSIENT' END
		FROM (SELECT i, id, at, no, status = 'RUNNING' AS live,
				CASE WHEN no = 1 THEN id ELSE overlay(id::text PLACING '9' FROM 20)::uuid END AS token,
				md5('w' || CASE WHEN status = 'RUNNING' THEN 21 + (?0 - i) / 30 WHEN i % 7001 = 0 THEN 0 ELSE 1 + i % 20 END)::uuid AS worker
			FROM made, generate_series(1, 1 + (i % 10 = 0 AND status <> 'RUNNING')::int) no
			WHERE status IN ('COMPLETED', 'FAILED', 'RUNNING')) tried`,
	`INSERT INTO dead_letters (id, job_id, run, model, provider, failure_class, reason, fingerprint, attempts, created_at, resolved_at, resolution)
		SELECT id, id, 1, model, CASE WHEN i % 4 < 3 THEN 'p' || i % 4 END, class, 'r', left(md5('f' || model || class || i % 7), 16), 1, at,
			CASE WHEN i % 4 < 2 THEN at END, CASE WHEN i % 4 < 2 THEN 'DISCARDED' END
		FROM made WHERE status = 'FAILED'`,
	`INSERT INTO webhook_events (id, account_id, job_id, run, type, created_at)
		SELECT id, account_id, id, 1, 'job.completed', at FROM made WHERE i % 10 < 2 AND status = 'COMPLETED'`,
	`INSERT INTO webhook_deliveries (id, event_id, endpoint_id, account_id, job_id, run, event, url, state, tries, next_attempt_at,
			created_at, delivered_at, last_error)
		SELECT id, id, md5('e' || CASE WHEN i % 2 = 0 THEN 1 ELSE 1 + i % 50 END)::uuid, account_id, id, 1, 'job.completed', 'https://example.com/',
			state, 1, CASE WHEN state = 'PENDING' THEN at END, at, CASE WHEN state = 'DELIVERED' THEN at END,
			CASE WHEN state = 'GIVEN_UP' THEN 'status 500' END
		FROM (SELECT *, CASE WHEN i > ?0 - ?0 / 50 AND i % 3 = 0 THEN 'PENDING' WHEN i % 5000 = 10 THEN 'GIVEN_UP' ELSE 'DELIVERED' END AS state
			FROM made WHERE i % 10 < 2 AND status = 'COMPLETED') told`,
	`INSERT INTO videos (job_id, model, created_at, delete_asked_at)
		SELECT id, model, at, CASE WHEN i % 70 = 0 THEN at END FROM made WHERE i % 10 = 0`,
	`INSERT INTO audit_log (id, at, actor, action, target)
		SELECT id, at, 'ann', 'cancelJob', 'target-' || i % 5000 FROM made WHERE i % 50 = 0`,
	`DROP TABLE made`,
}

var tables = []string{"jobs", "job_words", "job_attempts", "artifacts", "dead_letters", "webhook_events", "webhook_deliveries", "videos",
	"audit_log"}

// Write fills a new database with n jobs of many kinds and their rows. The newest is a minute
// old, and they are a second apart. It calls progress as jobs are written, and then as indexes
// are. conn must have no statement timeout, and nobody else may use the database meanwhile.
func Write(ctx context.Context, conn bun.Conn, n int, progress func(what string, done, of int)) error {
	for _, query := range prepared {
		if _, err := conn.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("prepare a history: %w", err)
		}
	}
	indexes, err := dropIndexes(ctx, conn)
	if err != nil {
		return fmt.Errorf("put indexes off: %w", err)
	}
	newest := time.Now().Add(-time.Minute)
	for first := 1; first <= n; first += batch {
		last := min(first+batch-1, n)
		for _, query := range written {
			if _, err := conn.NewRaw(query, n, first, last, newest).Exec(ctx); err != nil {
				return fmt.Errorf("write the jobs from %d to %d: %w", first, last, err)
			}
		}
		progress("jobs", last, n)
	}
	for i, index := range indexes {
		if _, err := conn.ExecContext(ctx, index); err != nil {
			return fmt.Errorf("%s: %w", index, err)
		}
		progress("indexes", i+1, len(indexes))
	}
	for _, query := range []string{"VACUUM (ANALYZE) " + strings.Join(tables, ", "), fmt.Sprintf("COMMENT ON TABLE jobs IS 'history of %d'",
		n)} {
		if _, err := conn.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return nil
}

// Jobs returns how many jobs the history in db has: 0 if there is none, and -1 if the database
// holds other jobs or Write did not finish.
func Jobs(ctx context.Context, db bun.IDB) (n int, err error) {
	err = db.NewRaw(`
		SELECT coalesce(substring(obj_description('jobs'::regclass) FROM '^history of ([0-9]+)$')::int,
			CASE WHEN EXISTS (SELECT FROM accounts) THEN -1 ELSE 0 END)`).Scan(ctx, &n)
	return n, err
}

// dropIndexes drops the indexes that no constraint needs, and returns the statements that
// create them again. To build an index at once is far faster than row by row.
func dropIndexes(ctx context.Context, conn bun.Conn) ([]string, error) {
	var found []struct {
		Name string `bun:"name"`
		Made string `bun:"made"`
	}
	err := conn.NewRaw(`
		SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS made FROM pg_index i
		WHERE i.indrelid = ANY (?::text[]::regclass[]) AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid)`,
		"{"+strings.Join(tables, ",")+"}").Scan(ctx, &found)
	if err != nil {
		return nil, err
	}
	var again []string
	for _, index := range found {
		if _, err := conn.ExecContext(ctx, "DROP INDEX "+index.Name); err != nil {
			return nil, err
		}
		again = append(again, index.Made)
	}
	return again, nil
}
