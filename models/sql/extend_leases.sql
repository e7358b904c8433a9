-- Restarts the leases of RUNNING attempts that these workers hold under these tokens. Records
-- the workers' signs of life with their newest GPU samples, and the newest progress of each
-- RUNNING or COMPLETING job. Writes a PROGRESS event if the percentage changed enough or the
-- last event is old enough.
--
-- Locks: workers, then the jobs that report progress, then attempts, each in the order of
-- their ids. Each part counts the rows of the part before, so that it begins after those are
-- locked.
--
-- Returns a row per extended lease, with what the worker needs to know.
WITH beats AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(@beats) AS b (
        place integer, worker_id uuid, attempt_id uuid, token uuid, gpus float8[],
        percent float8, phase text, progress_message text, step integer, total_steps integer, frame integer, total_frames integer, eta_seconds float8)
),
workers_locked AS MATERIALIZED (
    SELECT id FROM workers
    WHERE id = ANY (ARRAY(SELECT worker_id FROM beats))
    ORDER BY id FOR NO KEY UPDATE
),
reports AS MATERIALIZED (
    SELECT b.*, a.job_id FROM beats b JOIN job_attempts a ON a.id = b.attempt_id
    WHERE b.percent IS NOT NULL AND a.worker_id = b.worker_id AND a.fencing_token = b.token AND a.status = 'RUNNING'
        AND (SELECT count(*) FROM workers_locked) >= 0
),
jobs_locked AS MATERIALIZED (
    SELECT
        id, run, event_seq, progress_event_at, progress_event_percent,
        cancel_requested_at, cancel_delivered_at, cancel_reason
    FROM jobs
    WHERE id = ANY (ARRAY(SELECT job_id FROM reports)) AND status IN ('RUNNING', 'COMPLETING')
    ORDER BY id FOR NO KEY UPDATE
),
-- A heartbeat with progress counts only if the progress can be written to its job.
attempts_locked AS MATERIALIZED (
    SELECT a.id FROM beats b JOIN job_attempts a ON a.id = b.attempt_id
    WHERE a.worker_id = b.worker_id AND a.fencing_token = b.token AND a.status = 'RUNNING'
        AND (SELECT count(*) FROM workers_locked) >= 0 AND (SELECT count(*) FROM jobs_locked) >= 0
        AND (b.percent IS NULL OR b.place IN (SELECT place FROM reports WHERE job_id IN (SELECT id FROM jobs_locked)))
    ORDER BY a.id FOR NO KEY UPDATE OF a
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now WHERE (SELECT count(*) FROM attempts_locked) >= 0
),
extended AS (
    UPDATE job_attempts a SET
        last_heartbeat_at = clock.now,
        lease_expires_at = greatest(lease_expires_at, clock.now + make_interval(secs => @ttl))
    FROM clock
    WHERE a.id = ANY (ARRAY(SELECT id FROM attempts_locked))
    RETURNING a.id, a.job_id, a.worker_id, a.fencing_token, a.lease_expires_at
),
samples AS MATERIALIZED (
    SELECT DISTINCT ON (b.worker_id) b.worker_id, b.gpus
    FROM beats b JOIN extended x ON x.id = b.attempt_id AND x.worker_id = b.worker_id
    ORDER BY b.worker_id, b.gpus IS NULL, b.place DESC
),
alive AS (
    UPDATE workers w SET
        last_heartbeat_at = clock_timestamp(),
        idle_since = CASE WHEN w.status = 'LOST' THEN clock_timestamp() ELSE w.idle_since END,
        status = CASE WHEN w.status <> 'LOST' THEN w.status WHEN w.drain_reason IS NULL THEN 'IDLE' ELSE 'DRAINING' END,
        gpu_utilization = coalesce(s.gpus, w.gpu_utilization)
    FROM samples s
    WHERE w.id = s.worker_id AND w.status <> 'TERMINATED'
    RETURNING w.id, w.status, w.drain_reason, w.drain_deadline
),
newest AS MATERIALIZED (
    SELECT DISTINCT ON (job_id) * FROM reports
    WHERE attempt_id IN (SELECT id FROM extended)
    ORDER BY job_id, place DESC
),
told AS MATERIALIZED (
    SELECT n.*, j.run, j.event_seq, coalesce(
        j.progress_event_percent IS NULL OR abs(n.percent - j.progress_event_percent) >= @thin_percent
        OR clock.now >= j.progress_event_at + make_interval(secs => @thin_after), true) AS due
    FROM newest n JOIN jobs_locked j ON j.id = n.job_id, clock
),
progressed AS (
    UPDATE jobs j SET
        percent = t.percent, phase = t.phase, progress_message = t.progress_message,
        step = t.step, total_steps = t.total_steps,
        frame = t.frame, total_frames = t.total_frames, eta_seconds = t.eta_seconds, progress_at = clock.now,
        event_seq = t.event_seq + t.due::integer,
        progress_event_at = CASE WHEN t.due THEN clock.now ELSE j.progress_event_at END,
        progress_event_percent = CASE WHEN t.due THEN t.percent ELSE j.progress_event_percent END
    FROM told t, clock
    WHERE j.id = t.job_id
),
events_written AS (
    INSERT INTO job_events (job_id, seq, run, attempt_id, type, payload, created_at)
    SELECT
        job_id, event_seq + 1, run, attempt_id, 'PROGRESS',
        jsonb_build_object('percent', percent, 'phase', phase, 'message', coalesce(progress_message, '')), clock.now
    FROM told, clock WHERE due
)
SELECT
    x.worker_id, x.id, x.fencing_token, x.job_id, x.lease_expires_at,
    j.cancel_requested_at, j.cancel_delivered_at, j.cancel_reason,
    alive.status, alive.drain_reason, alive.drain_deadline,
    EXISTS (SELECT FROM told WHERE job_id = x.job_id AND due)
FROM extended x JOIN alive ON alive.id = x.worker_id
-- A locked row is read from jobs_locked: the statement's snapshot misses a cancel that
-- committed while the statement waited for the lock.
CROSS JOIN LATERAL (
    SELECT cancel_requested_at, cancel_delivered_at, cancel_reason FROM jobs_locked WHERE id = x.job_id
    UNION ALL
    SELECT cancel_requested_at, cancel_delivered_at, cancel_reason FROM jobs
    WHERE id = x.job_id AND id NOT IN (SELECT id FROM jobs_locked)
) j
