-- Writes new jobs with their first events and prompts, counts them on their accounts, and
-- enters the QUEUED ones into the lanes of their tiers.
--
-- Each new job arrives as an object of rows: the job, its event, and its prompt if it has one.
-- Jobs whose idempotency key was used before are not written. Nor are the jobs of an account that
-- has another tier than expected, no room for all of them, or budgets.
--
-- If the caller judged that itself, the statement writes the jobs without these checks, and does
-- not count them: models.CountNewJobs does that, once all is written.
--
-- Locks: the submits of the accounts, shared, see models.LockSubmits, then the accounts, both in
-- the order of their ids. Unless it is asked to wait, it waits for none of them: the jobs of an
-- account that others have locked are not written. Whoever waits for a submit with the same
-- idempotency key holds an account, so that one must not be a submit that takes long.
--
-- Returns a row per job that was written: its id, its order, its account's virtual time in the
-- line, and the clock at which it was written.
WITH expected AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(@accounts) AS t (id uuid, tier text)
),
free AS MATERIALIZED (
    SELECT id FROM expected WHERE
        {{if .wait}}pg_advisory_xact_lock_shared(hashtextextended(id::text, 1)) IS NOT NULL
        {{else}}pg_try_advisory_xact_lock_shared(hashtextextended(id::text, 1)){{end}}
),
locked AS MATERIALIZED (
    SELECT id, tier, queued, max_queued, running, max_running, budgeted FROM accounts
    WHERE id IN (SELECT id FROM free)
    ORDER BY id FOR NO KEY UPDATE {{if not .wait}}SKIP LOCKED{{end}}
),
clock AS MATERIALIZED (
    SELECT coalesce(@now::timestamptz, clock_timestamp()) AS now FROM (SELECT count(*) FROM locked) l
),
asked AS MATERIALIZED (
    SELECT place, (job).*, (event).type AS event, (event).payload, (input).ciphertext, (input).wrapped_key
    FROM jsonb_to_recordset(@jobs) AS r (place integer, job jobs, event job_events, input job_inputs)
),
fitting AS (
    SELECT l.id FROM locked l
    JOIN expected e USING (id)
    JOIN (SELECT account_id AS id, count(*) AS jobs FROM asked GROUP BY account_id) n USING (id)
    WHERE l.tier = e.tier AND l.queued + n.jobs <= l.max_queued AND NOT l.budgeted
),
written AS (
    INSERT INTO jobs (
        id, account_id, created_by, type, model, model_version, alias, status, tier, lane, priority,
        params, metadata, user_id, idempotency_key, request_digest, max_attempts, timeout_seconds, estimated_gpu_seconds, time_class,
        run_at, expires_at, retry_policy, region, require_region, callback_url, traceparent, blocked_by,
        draft_steps, takes_id, continues, workflow_id, at_most_once, max_preemptions, finish_by, max_price_per_hour, needs, slack_until, latest_checkpoint_id,
        reuse, reuse_digest, reuse_refs, fallback, estimated_usd,
        predicted_wait_seconds, predicted_seconds, event_seq, created_at, queued_at)
    SELECT
        id, account_id, created_by, type, model, model_version, alias, status, tier, lane, priority,
        params, metadata, user_id, idempotency_key, request_digest, max_attempts, timeout_seconds, estimated_gpu_seconds, time_class,
        run_at, expires_at, retry_policy, region, require_region, callback_url, traceparent, blocked_by,
        draft_steps, takes_id, continues, workflow_id, at_most_once, max_preemptions, finish_by, max_price_per_hour, needs, slack_until, latest_checkpoint_id,
        reuse, reuse_digest, reuse_refs, fallback, estimated_usd,
        predicted_wait_seconds, predicted_seconds, 1, now, CASE WHEN status = 'QUEUED' THEN now END
    FROM asked, clock
    WHERE @judged::boolean OR account_id IN (SELECT id FROM fitting)
    ORDER BY place
    ON CONFLICT (idempotency_key, account_id) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING id, account_id, status, lane, queue_order
),
prompts_written AS (
    INSERT INTO job_inputs (job_id, run, ciphertext, wrapped_key)
    SELECT id, 1, ciphertext, wrapped_key FROM asked JOIN written USING (id) WHERE ciphertext IS NOT NULL
),
events_written AS (
    INSERT INTO job_events (job_id, seq, run, type, payload, created_at)
    SELECT id, 1, 1, event, payload, now FROM asked JOIN written USING (id), clock
),
messages_written AS (
    INSERT INTO outbox (kind, payload)
    SELECT 'job.ready', value FROM jsonb_array_elements(@ready) WHERE EXISTS (SELECT FROM written)
),
accounts_counted AS (
    UPDATE accounts a SET queued = a.queued + n.jobs, version = a.version + 1
    FROM (SELECT account_id, count(*) AS jobs FROM written GROUP BY account_id) n
    WHERE a.id = n.account_id AND NOT @judged::boolean
),
-- The same as models.EnterLane.
lanes_entered AS (
    INSERT INTO account_lanes AS l (account_id, lane, promoted, queued, virtual_time, capped)
    SELECT n.account_id, n.lane, false, n.jobs, lane_time(n.lane, false), a.running >= a.max_running
    FROM (SELECT account_id, lane, count(*) AS jobs FROM written WHERE status = 'QUEUED' GROUP BY account_id, lane) n
    JOIN locked a ON a.id = n.account_id
    ON CONFLICT (account_id, lane, promoted) DO UPDATE SET
        queued = l.queued + excluded.queued,
        virtual_time = CASE WHEN l.queued > 0 THEN l.virtual_time ELSE greatest(l.virtual_time, excluded.virtual_time) END
    RETURNING account_id, lane, virtual_time
)
SELECT w.id, w.queue_order, coalesce(e.virtual_time, 0), now
FROM written w LEFT JOIN lanes_entered e USING (account_id, lane), clock
