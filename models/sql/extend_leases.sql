-- Restarts the leases of RUNNING attempts that these workers hold under these tokens. Records
-- the workers' signs of life with their newest GPU samples, and the newest progress of each
-- RUNNING or COMPLETING job. Writes a PROGRESS event if the percentage changed enough or the
-- last event is old enough. There is one beat per lease.
--
-- Locks: workers, then jobs, then attempts, each in the order of their ids. Whoever writes the row
-- of worker_gpus holds the worker's lock. Each part reads or
-- counts the rows of the part before, so that it begins after those are locked.
--
-- Returns a row per extended lease, with what the worker needs to know. What it says of the job
-- was read under its lock: the statement's snapshot misses a cancel that committed while the
-- statement waited.
--
-- LIMIT 1 makes PostgreSQL look up each attempt by its id. Without it PostgreSQL reads the whole
-- table, since the statistics often say that few attempts are RUNNING.
--
-- @patience, if not empty, is how long the statement waits for a lock at most: its error is then 55P03.
WITH patience AS MATERIALIZED (
    SELECT CASE WHEN @patience::text <> '' THEN set_config('lock_timeout', @patience::text, true) ELSE '' END AS set
),
beats AS MATERIALIZED (
    SELECT b.*, a.job_id
    FROM jsonb_to_recordset(@beats) AS b (
        worker_id uuid, attempt_id uuid, token uuid, gpus float8[], samples jsonb,
        percent float8, phase text, progress_message text, step integer, total_steps integer, frame integer, total_frames integer, eta_seconds float8)
    CROSS JOIN LATERAL (
        SELECT job_id FROM job_attempts
        WHERE id = b.attempt_id AND worker_id = b.worker_id AND fencing_token = b.token AND status = 'RUNNING'
        LIMIT 1) a
    WHERE (SELECT set IS NOT NULL FROM patience)
),
workers_locked AS MATERIALIZED (
    SELECT id FROM workers
    WHERE id = ANY (ARRAY(SELECT worker_id FROM beats))
    ORDER BY id FOR NO KEY UPDATE
),
jobs_locked AS MATERIALIZED (
    SELECT
        id, status, run, event_seq, progress_event_at, progress_event_percent,
        cancel_requested_at, cancel_delivered_at, cancel_reason
    FROM jobs
    WHERE id = ANY (ARRAY(SELECT job_id FROM beats WHERE (SELECT count(*) FROM workers_locked) >= 0))
    ORDER BY id FOR NO KEY UPDATE
),
attempts_locked AS MATERIALIZED (
    SELECT id FROM job_attempts
    WHERE status = 'RUNNING' AND id = ANY (ARRAY(
        SELECT b.attempt_id FROM beats b JOIN jobs_locked j ON j.id = b.job_id WHERE j.status IN ('RUNNING', 'COMPLETING')))
    ORDER BY id FOR NO KEY UPDATE
),
extended AS (
    UPDATE job_attempts a SET
        last_heartbeat_at = clock.now,
        lease_expires_at = greatest(lease_expires_at, clock.now + make_interval(secs => @ttl))
    FROM (SELECT clock_timestamp() AS now WHERE (SELECT count(*) FROM attempts_locked) >= 0) clock
    WHERE a.id = ANY (ARRAY(SELECT id FROM attempts_locked))
    RETURNING
        a.id, a.lease_expires_at, clock.now, a.yield_to,
        CASE WHEN a.yield_requested_at > clock.now - make_interval(secs => @yield_within) THEN a.yield_requested_at END AS yield_requested_at
),
held AS MATERIALIZED (
    SELECT
        b.*, x.lease_expires_at, x.now, x.yield_requested_at, x.yield_to, j.run, j.event_seq, j.cancel_requested_at, j.cancel_delivered_at, j.cancel_reason,
        b.percent IS NOT NULL AND coalesce(
            abs(b.percent - j.progress_event_percent) >= @thin_percent
            OR x.now >= j.progress_event_at + make_interval(secs => @thin_after), true) AS event_due
    FROM beats b JOIN extended x ON x.id = b.attempt_id JOIN jobs_locked j ON j.id = b.job_id
),
progressed AS (
    UPDATE jobs j SET
        percent = h.percent, phase = h.phase, progress_message = h.progress_message,
        step = h.step, total_steps = h.total_steps,
        frame = h.frame, total_frames = h.total_frames, eta_seconds = h.eta_seconds, progress_at = h.now,
        event_seq = h.event_seq + h.event_due::integer,
        progress_event_at = CASE WHEN h.event_due THEN h.now ELSE j.progress_event_at END,
        progress_event_percent = CASE WHEN h.event_due THEN h.percent ELSE j.progress_event_percent END
    FROM held h
    WHERE j.id = h.job_id AND h.percent IS NOT NULL
),
events_written AS (
    INSERT INTO job_events (job_id, seq, run, attempt_id, type, payload, created_at)
    SELECT
        job_id, event_seq + 1, run, attempt_id, 'PROGRESS',
        jsonb_build_object('percent', percent, 'phase', phase, 'message', coalesce(progress_message, '')), now
    FROM held WHERE event_due
),
samples_written AS (
    INSERT INTO worker_gpus (worker_id, gpus, sampled_at) SELECT worker_id, samples, now FROM held WHERE samples IS NOT NULL
    ON CONFLICT (worker_id) DO UPDATE SET gpus = excluded.gpus, sampled_at = excluded.sampled_at
)
UPDATE workers w SET
    last_heartbeat_at = clock_timestamp(),
    idle_since = CASE WHEN w.status = 'LOST' THEN clock_timestamp() ELSE w.idle_since END,
    status = CASE WHEN w.status <> 'LOST' THEN w.status WHEN w.drain_reason IS NULL THEN 'IDLE' ELSE 'DRAINING' END,
    gpu_utilization = coalesce(h.gpus, w.gpu_utilization)
FROM held h
WHERE w.id = h.worker_id AND w.status <> 'TERMINATED'
RETURNING
    h.worker_id, h.attempt_id, h.token, h.job_id, h.lease_expires_at,
    h.cancel_requested_at, h.cancel_delivered_at, h.cancel_reason,
    w.status, w.drain_reason, w.drain_deadline, h.event_due, h.yield_requested_at, h.yield_to
