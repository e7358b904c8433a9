-- Locks the workers and jobs of picks. A pick says which worker may get which job of which
-- account, at which request for a lease.
--
-- Locks: workers, then jobs, each in the order of their ids. Skips jobs that are no longer
-- QUEUED, that another transaction is leasing, or whose budget is spent. Reads accounts without a lock: the write
-- decides whether there is room.
--
-- Returns a row per pick: PostgreSQL's clock after all locks, the pick's place in the argument
-- (from 0), how many more jobs the account may run, the worker, the job, and whether the
-- worker's request already had a lease. A missing row is NULL.
--
-- @patience, if not empty, is how long the transaction waits for a lock at most: its error is then 55P03.
WITH patience AS MATERIALIZED (
    SELECT CASE WHEN @patience::text <> '' THEN set_config('lock_timeout', @patience::text, true) ELSE '' END AS set
),
picks AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(@picks) AS p (place integer, account_id uuid, worker_id uuid, job_id uuid, request_id text)
    WHERE (SELECT set IS NOT NULL FROM patience)
),
workers_locked AS MATERIALIZED (
    SELECT * FROM workers
    WHERE id = ANY (ARRAY(SELECT worker_id FROM picks))
    ORDER BY id FOR NO KEY UPDATE
),
jobs_locked AS MATERIALIZED (
    SELECT * FROM jobs
    WHERE id = ANY (ARRAY(SELECT job_id FROM picks WHERE (SELECT count(*) FROM workers_locked) >= 0)) AND status = 'QUEUED'
        AND NOT EXISTS (SELECT FROM budget_holds h WHERE h.account_id = jobs.account_id AND h.user_id IN ('', jobs.user_id))
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
SELECT
    (SELECT clock_timestamp() WHERE (SELECT count(*) FROM jobs_locked) >= 0), p.place,
    (SELECT max_running - running FROM accounts WHERE id = p.account_id), to_json(w), to_json(j),
    -- With EXISTS, PostgreSQL might read all attempts instead of looking up one.
    coalesce((SELECT true FROM job_attempts a WHERE a.worker_id = p.worker_id AND a.lease_request_id = p.request_id LIMIT 1), false)
FROM picks p LEFT JOIN workers_locked w ON w.id = p.worker_id LEFT JOIN jobs_locked j ON j.id = p.job_id
