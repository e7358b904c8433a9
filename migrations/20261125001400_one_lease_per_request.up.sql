-- A worker's request gets one lease, however often and however late it is repeated. Processes of
-- the older version may have given a late duplicate another one: the newest lease answers the
-- request, a live one first.
DROP INDEX CONCURRENTLY IF EXISTS job_attempts_one_per_request;
--bun:split
UPDATE job_attempts SET lease_request_id = NULL WHERE id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY worker_id, lease_request_id ORDER BY ended_at NULLS FIRST, leased_at DESC) AS nth
        FROM job_attempts WHERE lease_request_id IS NOT NULL) a
    WHERE nth > 1);
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY job_attempts_one_per_request ON job_attempts (worker_id, lease_request_id) WHERE lease_request_id IS NOT NULL;
