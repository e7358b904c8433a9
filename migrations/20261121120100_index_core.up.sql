-- Outside of a transaction: nobody has to wait for these.
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_blocked_by_check;
--bun:split
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_crashes_check;
--bun:split
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_gpu_rank_check;
--bun:split
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_deleted_check;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_starting;
--bun:split
CREATE INDEX CONCURRENTLY jobs_starting ON jobs (run_at) WHERE status = 'SCHEDULED' OR status = 'BLOCKED' AND blocked_by = 0;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_due;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_expiring;
--bun:split
CREATE INDEX CONCURRENTLY jobs_expiring ON jobs (expires_at) WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED') AND expires_at IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS workers_lost;
--bun:split
CREATE INDEX CONCURRENTLY workers_lost ON workers (lost_at) WHERE lost_at IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS artifacts_of_attempt;
--bun:split
CREATE INDEX CONCURRENTLY artifacts_of_attempt ON artifacts (attempt_id);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS uploads_of_job;
--bun:split
CREATE INDEX CONCURRENTLY uploads_of_job ON uploads (job_id);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_current_attempt;
--bun:split
CREATE INDEX CONCURRENTLY jobs_current_attempt ON jobs (current_attempt_id) WHERE current_attempt_id IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_latest_checkpoint;
--bun:split
CREATE INDEX CONCURRENTLY jobs_latest_checkpoint ON jobs (latest_checkpoint_id) WHERE latest_checkpoint_id IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_result;
--bun:split
CREATE INDEX CONCURRENTLY jobs_result ON jobs (result_id) WHERE result_id IS NOT NULL;
