-- The ended attempts of a worker, newest first: its page.
DROP INDEX CONCURRENTLY IF EXISTS job_attempts_of_worker;
--bun:split
CREATE INDEX CONCURRENTLY job_attempts_of_worker ON job_attempts (worker_id, id) WHERE ended_at IS NOT NULL;
