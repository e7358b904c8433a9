-- Says what work control has: for each kind, whether there is some now, and in how many seconds
-- more is due, by PostgreSQL's clock.
--
-- Locks nothing. Returns a row per kind.
--
-- Each part reads the first entry of an index. The orders are there for that: a connection would
-- keep a plan that reads the whole table, made while the table was small.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT kind, coalesce(due, false), extract(epoch FROM next - now)::float8
FROM clock CROSS JOIN LATERAL (VALUES
    -- The condition is that of the index jobs_due, word for word.
    ('delayed', (
        SELECT bool_or((
            SELECT j.run_at FROM jobs j
            WHERE (j.status = 'SCHEDULED' OR j.status = 'BLOCKED' AND j.blocked_by = 0) AND j.lane = l.lane
            ORDER BY j.run_at LIMIT 1) <= now)
        FROM lanes l
    ), (
        SELECT min((
            SELECT j.run_at FROM jobs j
            WHERE (j.status = 'SCHEDULED' OR j.status = 'BLOCKED' AND j.blocked_by = 0) AND j.lane = l.lane AND j.run_at > now
            ORDER BY j.run_at LIMIT 1))
        FROM lanes l
    )),
    ('schedules',
        (SELECT next_fire_at FROM schedules WHERE next_fire_at IS NOT NULL ORDER BY next_fire_at LIMIT 1) <= now,
        (SELECT next_fire_at FROM schedules WHERE next_fire_at > now ORDER BY next_fire_at LIMIT 1)),
    ('slots',
        (SELECT due_at FROM schedule_slots WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1) <= now,
        (SELECT due_at FROM schedule_slots WHERE due_at > now ORDER BY due_at LIMIT 1)),
    ('fetches',
        (SELECT next_at FROM input_fetches WHERE next_at <= now AND claimed_until <= now ORDER BY next_at LIMIT 1) IS NOT NULL,
        (SELECT next_at FROM input_fetches WHERE next_at > now ORDER BY next_at LIMIT 1)),
    ('webhooks', (SELECT endpoint_id FROM webhook_deliveries WHERE state = 'PENDING' ORDER BY endpoint_id LIMIT 1) IS NOT NULL, NULL),
    ('outbox', (SELECT id FROM outbox WHERE claimed_until IS NULL OR claimed_until < now ORDER BY id LIMIT 1) IS NOT NULL, NULL),
    ('unsettled', EXISTS (SELECT FROM unsettled), NULL),
    ('leases', (SELECT worker_id FROM job_attempts WHERE ended_at IS NULL ORDER BY worker_id LIMIT 1) IS NOT NULL, NULL),
    ('expiring', (
        SELECT expires_at FROM jobs
        WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED') AND expires_at <= now AND started_at IS NULL
        ORDER BY expires_at LIMIT 1) IS NOT NULL, NULL),
    ('slack',
        (SELECT slack_until FROM jobs WHERE status = 'QUEUED' AND slack_until IS NOT NULL AND needs NOT LIKE 'held%' ORDER BY slack_until LIMIT 1) <= now, NULL),
    ('parents', EXISTS (SELECT FROM parent_retries), NULL),
    ('approvals',
        (SELECT id FROM jobs WHERE type = 'workflow.approval' AND status = 'BLOCKED' AND blocked_by = 2 ORDER BY id LIMIT 1) IS NOT NULL
            OR (SELECT expires_at FROM approvals WHERE decided_at IS NULL ORDER BY expires_at LIMIT 1) <= now,
        (SELECT expires_at FROM approvals WHERE decided_at IS NULL AND expires_at > now ORDER BY expires_at LIMIT 1)),
    ('cancels',
        (SELECT id FROM workflows WHERE status = 'RUNNING' AND cancel_requested_at IS NOT NULL ORDER BY id LIMIT 1) IS NOT NULL, NULL),
    ('bulk', (SELECT next_at FROM bulk_operations WHERE finished_at IS NULL AND NOT paused ORDER BY next_at LIMIT 1) <= now, NULL),
    ('erasures',
        (SELECT next_at FROM account_deletions WHERE finished_at IS NULL ORDER BY next_at LIMIT 1) <= now,
        (SELECT next_at FROM account_deletions WHERE finished_at IS NULL AND next_at > now ORDER BY next_at LIMIT 1)),
    ('notices', (SELECT next_at FROM alert_notices WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1) <= now, NULL),
    ('deletions', (SELECT next_at FROM object_deletions ORDER BY next_at LIMIT 1) <= now, NULL),
    ('budgets', EXISTS (SELECT FROM purse_entries) OR EXISTS (SELECT FROM budget_holds)
        OR (SELECT lane FROM jobs WHERE status = 'QUEUED' AND needs <> '' AND needs LIKE 'held%' ORDER BY lane, needs LIMIT 1) IS NOT NULL, NULL),
    ('queue', (SELECT lane FROM jobs WHERE status = 'QUEUED' ORDER BY lane, tier, model, queued_at LIMIT 1) IS NOT NULL, NULL),
    -- Ended jobs are still learned from.
    ('jobs', (SELECT lane FROM jobs WHERE status = 'QUEUED' ORDER BY lane, tier, model, queued_at LIMIT 1) IS NOT NULL
        OR (SELECT worker_id FROM job_attempts WHERE ended_at IS NULL ORDER BY worker_id LIMIT 1) IS NOT NULL
        OR (SELECT completed_at FROM jobs WHERE completed_at IS NOT NULL ORDER BY completed_at DESC LIMIT 1) > now - interval '15 seconds',
        NULL),
    ('fleet', (SELECT lane FROM jobs WHERE status = 'QUEUED' ORDER BY lane, tier, model, queued_at LIMIT 1) IS NOT NULL
        OR EXISTS (SELECT FROM workers WHERE ended_at IS NULL AND status <> 'IDLE')
        OR EXISTS (SELECT FROM pools WHERE deleted_at IS NULL AND provider_problem <> ''), NULL)
) AS work (kind, due, next)
