-- Writes what a transaction decided: changes of rows that it has locked, and rows that it
-- adds.
--
-- This is a template: a part without rows is left out, since PostgreSQL prepares each part that is
-- there for its run, which takes as long as to write a row. Only some twenty of the statements that
-- it can make occur.
--
-- Rows arrive as JSON arrays of objects keyed by column name. Each part lists the columns that
-- it reads: to read whole rows takes PostgreSQL longer than the write. A locked row comes with
-- the status in which it was locked (an attempt with its token), and is written only if that
-- still holds.
--
-- The ids of the locked rows are arguments, too, and LIMIT 1 finds an upload, so that PostgreSQL
-- looks up each row by its key. For rows from JSON alone it expects a hundred, and reads whole
-- tables. The ids are subqueries so that one plan serves arrays of any length.
--
-- Locks: the caller has locked workers, jobs and attempts. The accounts follow in the order of
-- their ids, then their places in the lines, then the lane. No write takes an account above
-- its running limit or, if it is bounded, its queue limit.
--
-- Returns how many rows it wrote of those that others could have changed, which the caller
-- compares with how many it asked for, and the new counters.
WITH nothing AS (SELECT)
{{if .workers}}, workers_saved AS (
    UPDATE workers w SET
        status = n.status, warm_models = n.warm_models, token_hash = n.token_hash,
        drain_reason = n.drain_reason, drain_deadline = n.drain_deadline, gpu_utilization = n.gpu_utilization,
        jobs_completed = n.jobs_completed, gpu_seconds = n.gpu_seconds, registered_at = n.registered_at,
        last_heartbeat_at = n.last_heartbeat_at, idle_since = n.idle_since, ended_at = n.ended_at, lost_at = n.lost_at
    FROM json_to_recordset(@workers) AS n (
        id uuid, was text, status text, warm_models text[], token_hash bytea, drain_reason text,
        drain_deadline timestamptz, gpu_utilization float8[], jobs_completed integer, gpu_seconds float8,
        registered_at timestamptz, last_heartbeat_at timestamptz, idle_since timestamptz, ended_at timestamptz,
        lost_at timestamptz)
    WHERE w.id = n.id AND w.status = n.was
        AND w.id = ANY ((SELECT @worker_ids::uuid[])::uuid[])
    RETURNING w.id
){{end}}
{{if .attempts}}, attempts_saved AS (
    UPDATE job_attempts a SET
        status = n.status, lease_expires_at = n.lease_expires_at, last_heartbeat_at = n.last_heartbeat_at,
        started_at = n.started_at, ended_at = n.ended_at, resumed_from_step = n.resumed_from_step,
        checkpoint_id = n.checkpoint_id, checkpoint_at = n.checkpoint_at, log_id = n.log_id, uploads = n.uploads,
        failure_class = n.failure_class, failure_reason = n.failure_reason, error_detail = n.error_detail,
        counted = n.counted, gpu_seconds = n.gpu_seconds, wasted_gpu_seconds = n.wasted_gpu_seconds
    FROM json_to_recordset(@attempts) AS n (
        id uuid, fencing_token uuid, status text, lease_expires_at timestamptz, last_heartbeat_at timestamptz,
        started_at timestamptz, ended_at timestamptz, resumed_from_step integer, checkpoint_id uuid,
        checkpoint_at timestamptz, log_id uuid, uploads integer, failure_class text, failure_reason text,
        error_detail text, counted boolean, gpu_seconds float8, wasted_gpu_seconds float8)
    WHERE a.id = n.id AND a.fencing_token = n.fencing_token AND a.ended_at IS NULL
        AND a.id = ANY ((SELECT @attempt_ids::uuid[])::uuid[])
    RETURNING a.id
){{end}}
{{if .jobs}}, jobs_saved AS (
    UPDATE jobs j SET
        status = n.status, run = n.run, tier = n.tier, lane = n.lane, priority = n.priority, requeued = n.requeued,
        max_attempts = n.max_attempts, retry_policy = n.retry_policy, timeout_seconds = n.timeout_seconds,
        run_at = n.run_at, expires_at = n.expires_at, blocked_by = n.blocked_by,
        gpu_rank = n.gpu_rank, preemptions = n.preemptions, needs = n.needs, slack_until = n.slack_until,
        avoid_worker_id = n.avoid_worker_id, avoid_until = n.avoid_until,
        attempt_no = n.attempt_no, failures = n.failures, crashes = n.crashes, event_seq = n.event_seq,
        current_attempt_id = n.current_attempt_id, latest_checkpoint_id = n.latest_checkpoint_id,
        handle = n.handle,
        result_id = n.result_id, output = n.output,
        failure_class = n.failure_class, failure_reason = n.failure_reason,
        wasted_gpu_seconds = n.wasted_gpu_seconds,
        cancel_by = n.cancel_by, cancel_reason = n.cancel_reason, cancel_requested_at = n.cancel_requested_at,
        cancel_delivered_at = n.cancel_delivered_at, cancel_stopped_at = n.cancel_stopped_at,
        percent = n.percent, phase = n.phase, progress_message = n.progress_message, step = n.step,
        total_steps = n.total_steps, frame = n.frame, total_frames = n.total_frames, eta_seconds = n.eta_seconds,
        progress_at = n.progress_at, preview_id = n.preview_id,
        progress_event_at = n.progress_event_at, progress_event_percent = n.progress_event_percent,
        estimated_gpu_seconds = n.estimated_gpu_seconds, estimated_usd = n.estimated_usd, predicted_wait_seconds = n.predicted_wait_seconds,
        predicted_seconds = n.predicted_seconds, waited_seconds = n.waited_seconds,
        queued_seconds = n.queued_seconds, leased_seconds = n.leased_seconds,
        paused_seconds = n.paused_seconds, backoff_seconds = n.backoff_seconds,
        delayed_seconds = n.delayed_seconds, delayed_at = n.delayed_at,
        queued_at = n.queued_at, leased_at = n.leased_at, started_at = n.started_at,
        completed_at = n.completed_at, deleted_at = n.deleted_at, kept_until = n.kept_until
    FROM json_to_recordset(@jobs) AS n (
        id uuid, was text, status text, run integer, tier text, lane text, priority integer, requeued boolean,
        max_attempts integer, retry_policy jsonb, timeout_seconds integer, run_at timestamptz, expires_at timestamptz,
        blocked_by integer, gpu_rank integer, preemptions integer, needs text, slack_until timestamptz, avoid_worker_id uuid, avoid_until timestamptz, attempt_no integer,
        failures integer, crashes integer, event_seq integer, current_attempt_id uuid, latest_checkpoint_id uuid, handle text,
        result_id uuid, output jsonb, failure_class text, failure_reason text, wasted_gpu_seconds float8,
        cancel_by text, cancel_reason text, cancel_requested_at timestamptz, cancel_delivered_at timestamptz,
        cancel_stopped_at timestamptz, percent float8, phase text, progress_message text, step integer,
        total_steps integer, frame integer, total_frames integer, eta_seconds float8, progress_at timestamptz, preview_id uuid,
        progress_event_at timestamptz, progress_event_percent float8, estimated_gpu_seconds float8, estimated_usd numeric,
        predicted_wait_seconds float8, predicted_seconds float8, waited_seconds float8, queued_seconds float8,
        leased_seconds float8, paused_seconds float8, backoff_seconds float8, delayed_seconds float8, delayed_at timestamptz,
        queued_at timestamptz, leased_at timestamptz, started_at timestamptz,
        completed_at timestamptz, deleted_at timestamptz, kept_until timestamptz)
    WHERE j.id = n.id AND j.status = n.was
        AND j.id = ANY ((SELECT @job_ids::uuid[])::uuid[])
    RETURNING j.id
){{end}}
{{if .begun}}, attempts_begun AS (
    INSERT INTO job_attempts (
        id, job_id, run, attempt_no, worker_id, fencing_token, lease_request_id, status,
        leased_at, lease_expires_at, last_heartbeat_at)
    SELECT
        id, job_id, run, attempt_no, worker_id, fencing_token, lease_request_id, status,
        leased_at, lease_expires_at, leased_at
    FROM json_to_recordset(@begun) AS n (
        id uuid, job_id uuid, run integer, attempt_no integer, worker_id uuid, fencing_token uuid,
        lease_request_id text, status text, leased_at timestamptz, lease_expires_at timestamptz)
){{end}}
{{if .issued}}, uploads_issued AS (
    INSERT INTO uploads (object_key, job_id, attempt_id, type, content_type, size_bytes, checksum)
    SELECT object_key, job_id, attempt_id, type, content_type, size_bytes, checksum
    FROM jsonb_populate_recordset(NULL::uploads, @issued)
){{end}}
{{if .artifacts}}, artifacts_kept AS (
    INSERT INTO artifacts (
        id, job_id, account_id, attempt_id, type, object_key, size_bytes, checksum, content_type,
        step, percent, metadata, created_at)
    SELECT
        n.id, u.job_id, n.account_id, u.attempt_id, u.type, u.object_key, u.size_bytes, u.checksum, u.content_type,
        n.step, n.percent, n.metadata, n.created_at
    FROM jsonb_populate_recordset(NULL::artifacts, @artifacts) n
    CROSS JOIN LATERAL (SELECT * FROM uploads WHERE object_key = n.object_key LIMIT 1) u
    RETURNING id
){{end}}
{{if .events}}, events_written AS (
    INSERT INTO job_events (job_id, seq, run, attempt_id, type, payload, created_at)
    SELECT job_id, seq, run, attempt_id, type, payload, created_at
    FROM json_to_recordset(@events) AS n (
        job_id uuid, seq integer, run integer, attempt_id uuid, type text, payload jsonb, created_at timestamptz)
){{end}}
{{if .accounts}}, accounts_locked AS MATERIALIZED (
    SELECT n.*
    FROM accounts a JOIN jsonb_to_recordset(@accounts) AS n (id uuid, queued integer, running integer, bounded boolean) USING (id)
    ORDER BY a.id FOR NO KEY UPDATE OF a
),
accounts_counted AS (
    UPDATE accounts a SET queued = a.queued + n.queued, running = a.running + n.running, version = a.version + 1
    FROM accounts_locked n
    WHERE a.id = n.id
        AND (n.running <= 0 OR a.running + n.running <= a.max_running)
        AND (NOT n.bounded OR a.queued + n.queued <= a.max_queued)
    RETURNING a.id, a.version, a.running >= a.max_running AS capped, a.running - n.running >= a.max_running AS was_capped
){{end}}
-- Fair queueing: a lease advances the account's virtual time by the estimated GPU seconds over
-- the account's weight. A job that leaves without a lease does not advance it.
{{if .left}}, lines_left AS (
    UPDATE account_lanes l SET queued = l.queued - n.jobs, virtual_time = l.virtual_time + n.gpu_seconds / a.weight
    FROM jsonb_to_recordset(@left) AS n (account_id uuid, lane text, promoted boolean, jobs integer, gpu_seconds float8)
    JOIN accounts a ON a.id = n.account_id
    WHERE l.account_id = n.account_id AND l.lane = n.lane AND l.promoted = n.promoted
        {{if .accounts}}AND (SELECT count(*) FROM accounts_counted) >= 0{{end}}
    RETURNING l.account_id AS id, l.lane, l.promoted, l.virtual_time
){{end}}
-- The lane's turns must be as they were read: at least @since_least starts of its own jobs
-- since the last promoted one, and at most @since_most after these starts.
{{if .lane}}, lane_started AS (
    UPDATE lanes SET since_promoted = CASE WHEN @promoted::boolean THEN 0 ELSE since_promoted + @starts::integer END
    WHERE lane = @lane AND since_promoted >= @since_least::integer
        AND (@promoted::boolean OR since_promoted + @starts::integer <= @since_most::integer)
        {{if .accounts}}AND (SELECT count(*) FROM accounts_counted) >= 0{{end}}
    RETURNING lane
){{end}}
SELECT
    {{if .workers}}(SELECT count(*) FROM workers_saved){{else}}0{{end}},
    {{if .attempts}}(SELECT count(*) FROM attempts_saved){{else}}0{{end}},
    {{if .jobs}}(SELECT count(*) FROM jobs_saved){{else}}0{{end}},
    {{if .artifacts}}(SELECT count(*) FROM artifacts_kept){{else}}0{{end}},
    {{if .accounts}}(SELECT coalesce(jsonb_agg(c), '[]') FROM accounts_counted c){{else}}'[]'{{end}},
    {{if .left}}(SELECT coalesce(jsonb_agg(l), '[]') FROM lines_left l){{else}}'[]'{{end}},
    {{if .lane}}(SELECT count(*) FROM lane_started){{else}}0{{end}}
