-- Finds the attempts that make a host suspect.
DROP INDEX CONCURRENTLY IF EXISTS job_attempts_suspect;
--bun:split
CREATE INDEX CONCURRENTLY job_attempts_suspect ON job_attempts (ended_at) WHERE failure_class IN ('MODEL_CRASH', 'DEFECTIVE_RESULT');
