-- Locks all rows of the leases that workers hold under these tokens.
--
-- Locks: workers, then jobs, then attempts, each in the order of their ids. Each part counts
-- the rows of the part before, so that it begins after those are locked.
--
-- Returns a row per lease: PostgreSQL's clock after all locks, the worker, the job, the
-- attempt. Leases that have ended are left out, except those that ended while the statement
-- waited for their rows.
--
-- LIMIT 1 makes PostgreSQL look up each attempt by its id. A connection would keep a plan that
-- reads the whole table, made while the table was small.
--
-- @patience, if not empty, is how long the transaction waits for a lock at most: its error is then 55P03.
WITH patience AS MATERIALIZED (
    SELECT CASE WHEN @patience::text <> '' THEN set_config('lock_timeout', @patience::text, true) ELSE '' END AS set
),
asked AS MATERIALIZED (
    SELECT a.*
    FROM jsonb_to_recordset(@holds) AS h (worker_id uuid, attempt_id uuid, token uuid)
    CROSS JOIN LATERAL (
        SELECT id, worker_id, job_id FROM job_attempts
        WHERE id = h.attempt_id AND worker_id = h.worker_id AND fencing_token = h.token AND status IN ('LEASED', 'RUNNING')
        LIMIT 1) a
    WHERE (SELECT set IS NOT NULL FROM patience)
),
workers_locked AS MATERIALIZED (
    SELECT * FROM workers
    WHERE id = ANY (ARRAY(SELECT worker_id FROM asked))
    ORDER BY id FOR NO KEY UPDATE
),
jobs_locked AS MATERIALIZED (
    SELECT * FROM jobs
    WHERE id = ANY (ARRAY(SELECT job_id FROM asked WHERE (SELECT count(*) FROM workers_locked) >= 0))
    ORDER BY id FOR NO KEY UPDATE
),
attempts_locked AS MATERIALIZED (
    SELECT * FROM job_attempts
    WHERE id = ANY (ARRAY(SELECT id FROM asked WHERE (SELECT count(*) FROM jobs_locked) >= 0))
    ORDER BY id FOR NO KEY UPDATE
)
SELECT (SELECT clock_timestamp() WHERE (SELECT count(*) FROM attempts_locked) >= 0), to_json(w), to_json(j), to_json(a)
FROM attempts_locked a JOIN workers_locked w ON w.id = a.worker_id JOIN jobs_locked j ON j.id = a.job_id
