-- The ended attempts of a worker, newest first: its page. No id is NULL: NULLS FIRST is an order that the
-- primary key does not have, so that PostgreSQL does not walk the primary key and filter.
DROP INDEX CONCURRENTLY IF EXISTS job_attempts_of_worker;
--bun:split
CREATE INDEX CONCURRENTLY job_attempts_of_worker ON job_attempts (worker_id, id NULLS FIRST) WHERE ended_at IS NOT NULL;
