-- What lists of jobs are read by (models/job_list.go). Outside of a transaction:
-- nobody has to wait for these. There are no NULLs: NULLS FIRST is an order that
-- the primary keys do not have, so that PostgreSQL never walks those and filters.
-- The first three take the places of others, so that a job's transition writes no
-- more indexes than before; the rest are for the few jobs that their conditions
-- name.
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_kind;
--bun:split
CREATE INDEX CONCURRENTLY jobs_by_kind ON jobs (status, tier, type, model, id NULLS FIRST);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_status;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_account_by_kind;
--bun:split
CREATE INDEX CONCURRENTLY jobs_of_account_by_kind ON jobs (account_id, status, tier, type, model, id NULLS FIRST);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_account;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_key;
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY jobs_by_key ON jobs (idempotency_key, account_id) WHERE idempotency_key IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_idempotency;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_user;
--bun:split
CREATE INDEX CONCURRENTLY jobs_by_user ON jobs (user_id, account_id, id NULLS FIRST) WHERE user_id IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_failure;
--bun:split
CREATE INDEX CONCURRENTLY jobs_by_failure ON jobs (failure_class, id NULLS FIRST) WHERE failure_class IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_account_by_failure;
--bun:split
CREATE INDEX CONCURRENTLY jobs_of_account_by_failure ON jobs (account_id, failure_class, id NULLS FIRST) WHERE failure_class IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_wasteful;
--bun:split
CREATE INDEX CONCURRENTLY jobs_wasteful ON jobs (id NULLS FIRST) WHERE wasted_gpu_seconds > 0;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_account_wasteful;
--bun:split
CREATE INDEX CONCURRENTLY jobs_of_account_wasteful ON jobs (account_id, id NULLS FIRST) WHERE wasted_gpu_seconds > 0;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_of_job;
--bun:split
CREATE INDEX CONCURRENTLY dead_letters_of_job ON dead_letters (job_id NULLS FIRST) WHERE resolved_at IS NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS job_attempts_by_worker;
--bun:split
CREATE INDEX CONCURRENTLY job_attempts_by_worker ON job_attempts (worker_id, job_id NULLS FIRST);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS job_attempts_of_worker;
