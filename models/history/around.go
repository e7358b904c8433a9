package history

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"
)

// around are the statements that write what surrounds the jobs: pools, workers, events, figures of
// the past, and what operators made. The jobs are ?0.
var around = []string{
	`INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, zones, price_per_hour_usd)
		SELECT md5('p' || i)::uuid, 'pool-' || i, 'p', 'r' || i % 4, CASE WHEN i % 2 = 0 THEN 'l4' ELSE 'a100' END,
			CASE WHEN i % 4 = 3 THEN 'ON_DEMAND' ELSE 'SPOT' END, '{alpha,beta}', 0, 200, ARRAY['r' || i % 4 || '-a', 'r' || i % 4 || '-b'], 2
		FROM generate_series(1, 8) i`,
	`UPDATE workers w SET pool_id = p.id, region = p.region, zone = p.zones[1 + n % 2], gpu_type = p.gpu_type, price_per_hour_usd = 2
		FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM workers) numbered, pools p WHERE numbered.id = w.id AND p.name = 'pool-' || 1 + n % 8`,
	`INSERT INTO workers (id, pool_id, provider, provider_instance_id, region, zone, gpu_type, capacity_class, models, status, agent_version,
			registered_at, last_heartbeat_at, idle_since, price_per_hour_usd, ended_at, created_at)
		SELECT md5('h' || i)::uuid, p.id, p.provider, 'h' || i, p.region, p.zones[1 + i % 2], p.gpu_type, p.capacity_class, p.models,
			CASE WHEN i > 400 THEN 'TERMINATED' WHEN i % 50 = 0 THEN 'DRAINING' ELSE 'IDLE' END, '0.1.0',
			now() - interval '2 hours', now(), now(), 2, CASE WHEN i > 400 THEN now() - make_interval(mins => i - 400) END, now() - interval '2 hours'
		FROM generate_series(1, 2400) i JOIN pools p ON p.name = 'pool-' || 1 + i % 8`,
	`INSERT INTO worker_gpus (worker_id, gpus, sampled_at)
		SELECT id, '[{"index": 0, "name": "L4", "utilization": 0.8, "memoryUsedBytes": 1000, "memoryTotalBytes": 24000}]', now() FROM workers WHERE ended_at IS NULL`,
	`INSERT INTO scaling_decisions (pool_id, at, from_count, to_count, reason, inputs)
		SELECT p.id, now() - make_interval(mins => i), 1, 2, 'queue', '{}' FROM pools p, generate_series(5000, 1, -1) i`,
	`INSERT INTO job_dependencies (job_id, depends_on)
		SELECT id, previous FROM (SELECT id, ticket, lag(id) OVER (ORDER BY id) AS previous FROM jobs) paired WHERE ticket % 1000 = 0
		UNION
		SELECT id, (SELECT id FROM jobs WHERE ticket = ?0 / 2) FROM (SELECT id FROM jobs WHERE ticket > ?0 / 2 ORDER BY ticket LIMIT 2000) children`,
	`UPDATE jobs SET draft_steps = 4, takes_id = md5('t' || ticket / 100000)::uuid, result_id = NULL WHERE status = 'COMPLETED' AND ticket % 25000 < 8`,
	`INSERT INTO bulk_operations (id, action, filter, per_minute, canary, canary_over, matched, done, account_id, started_by, role, created_at, finished_at)
		SELECT md5('b' || i)::uuid, 'CANCEL', '{"status": ["QUEUED"]}', 60, 0, true, CASE WHEN i <= 3 THEN 100000 ELSE 10 END, CASE WHEN i <= 3 THEN 100000 ELSE 10 END,
			md5('a1')::uuid, md5('k1')::uuid, 'OPERATOR', now() - make_interval(hours => i), now() - make_interval(hours => i)
		FROM generate_series(1, 60) i`,
	`INSERT INTO bulk_items (operation_id, seq, job_id, run, state)
		SELECT md5('b' || i)::uuid, row_number() OVER (PARTITION BY i), id, 1, 'DONE' FROM generate_series(1, 3) i, jobs WHERE jobs.ticket % 10 = i LIMIT 300000`,
	`INSERT INTO api_keys (id, account_id, name, role, prefix, hash)
		SELECT md5('k' || i)::uuid, md5('a' || 1 + i % 50)::uuid, 'key ' || i, 'CLIENT', 'rl_live_' || i, sha256(i::text::bytea) FROM generate_series(1, 2000) i`,
	`INSERT INTO members (id, account_id, email, name, role)
		SELECT md5('m' || i)::uuid, md5('a1')::uuid, 'm' || i || '@example.com', 'Member ' || i, 'VIEWER' FROM generate_series(1, 100) i`,
	`INSERT INTO saved_views (id, owner, shared, name, query)
		SELECT md5('v' || i)::uuid, 'nobody', true, 'view ' || i, 'status=FAILED' FROM generate_series(1, 50) i`,
	`INSERT INTO alerts (id, rule, severity, message, value, threshold, since, held_at, fired_at, resolved_at)
		SELECT md5('al' || i)::uuid, 'queue-depth', 'P2', 'The queue is deep.', 300, 200, at, at, at, at FROM (
			SELECT i, now() - make_interval(mins => i) AS at FROM generate_series(1, 5000) i) fired`,
	`INSERT INTO alert_notices (id, alert_id, event, route, created_at, next_at, sent_at)
		SELECT md5('n' || i)::uuid, md5('al' || i)::uuid, 'FIRED', 'mail', now() - make_interval(mins => i), NULL, now() FROM generate_series(1, 5000) i`,
	`INSERT INTO webhook_tries (delivery_id, try_no, at, status_code, duration_ms)
		SELECT id, 1, created_at, 200, 30 FROM webhook_deliveries WHERE state <> 'PENDING'`,
	`INSERT INTO arrival_hours (hour, model, tier, jobs, gpu_seconds)
		SELECT date_trunc('hour', now()) - make_interval(hours => h), m, t, 900, 9000 FROM generate_series(0, 24 * 28) h, unnest('{alpha,beta,gamma-2}'::text[]) m, unnest('{PRO,FREE,BATCH}'::text[]) t`,
	`UPDATE learning SET began_at = now() - interval '400 days'`,
	`INSERT INTO history (seconds, at, minutes, samples)
		SELECT s.seconds, at, s.seconds / 60, s.seconds / 60 FROM (VALUES (60, 2), (600, 14), (3600, 90), (86400, 400)) s (seconds, days),
			generate_series(to_timestamp(floor(extract(epoch FROM now() - make_interval(days => s.days)) / s.seconds) * s.seconds),
				now() - make_interval(secs => s.seconds), make_interval(secs => s.seconds)) at`,
	`INSERT INTO history_jobs (seconds, at, lane, model, submitted, started, completed, failed, waits, pickups, renders, queued, running)
		SELECT seconds, at, lane, model, minutes, minutes, minutes, 1, times, times, times, 10 * minutes, 3 * minutes
		FROM history, unnest('{ENTERPRISE,PRO,FREE,BATCH}'::text[]) lane, unnest('{alpha,beta,gamma-0,gamma-2}'::text[]) model,
			(SELECT jsonb_object_agg(n, 3) FROM generate_series(5, 20) n) t (times)`,
	`INSERT INTO history_pools (seconds, at, pool, region, gpu_type, attempts, paid, checkpoints, recoveries, idle, busy, gpus, gpus_busy)
		SELECT seconds, at, p.name, p.region, p.gpu_type, minutes, jsonb_build_object('useful', jsonb_build_object('seconds', 60 * minutes, 'usd', minutes)), times, times,
			50 * minutes, 10 * minutes, 60 * minutes, 9 * minutes
		FROM history, pools p, (SELECT jsonb_object_agg(n, 3) FROM generate_series(5, 20) n) t (times)`,
}

// events writes five events of each job from ?0 to ?1.
const events = `
	INSERT INTO job_events (job_id, seq, run, attempt_id, type, payload, created_at)
	SELECT id, seq, 1, CASE WHEN seq > 1 AND status IN ('COMPLETED', 'FAILED', 'RUNNING') THEN id END,
		CASE WHEN seq = 5 THEN CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN status ELSE 'PROGRESS' END ELSE (ARRAY['QUEUED', 'LEASED', 'STARTED', 'PROGRESS'])[seq] END,
		'{"percent": 50}', created_at + make_interval(secs => seq * 0.1)
	FROM jobs, generate_series(1, CASE WHEN status IN ('QUEUED', 'SCHEDULED') THEN 1 ELSE 5 END) seq
	WHERE ticket >= ?0 AND ticket < ?1 AND id BETWEEN (SELECT min(id::text)::uuid FROM jobs WHERE ticket = ?0) AND (SELECT max(id::text)::uuid FROM jobs WHERE ticket = least(?1, ?2))`

// WriteAround adds to the history of n jobs what surrounds jobs: pools, workers, events, the
// figures of the past, and what operators made. conn must have no statement timeout.
func WriteAround(ctx context.Context, conn bun.Conn, n int, progress func(what string, done, of int)) error {
	for _, query := range prepared[:3] {
		if _, err := conn.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("prepare what surrounds a history: %w", err)
		}
	}
	if _, err := conn.ExecContext(ctx, "CREATE INDEX of_history ON jobs (ticket)"); err != nil {
		return fmt.Errorf("number the jobs: %w", err)
	}
	for i, query := range around {
		if _, err := conn.NewRaw(query, n).Exec(ctx); err != nil {
			return fmt.Errorf("write what surrounds a history: %w", err)
		}
		progress("surroundings", i+1, len(around))
	}
	for first := 1; first <= n; first += batch {
		if _, err := conn.NewRaw(events, first, first+batch, n).Exec(ctx); err != nil {
			return fmt.Errorf("write the events of the jobs from %d: %w", first, err)
		}
		progress("events", min(first+batch-1, n), n)
	}
	for _, query := range []string{
		"DROP INDEX of_history",
		"SELECT brin_summarize_new_values(indexrelid) FROM pg_index WHERE indexrelid::regclass::text LIKE 'job_events%created_at%'",
		"VACUUM (ANALYZE)",
		"COMMENT ON TABLE job_events IS 'surrounds a history'",
	} {
		if _, err := conn.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return nil
}

// Surrounded reports whether WriteAround finished.
func Surrounded(ctx context.Context, db bun.IDB) (is bool, err error) {
	err = db.NewRaw("SELECT coalesce(obj_description('job_events'::regclass) = 'surrounds a history', false)").Scan(ctx, &is)
	return is, err
}
