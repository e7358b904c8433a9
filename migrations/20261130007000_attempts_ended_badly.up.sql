-- The attempts that a host lost or spoiled, by when they ended: which host eats jobs, and what a
-- reclamation cost. Few attempts end like this.
DROP INDEX CONCURRENTLY IF EXISTS job_attempts_ended_badly;
--bun:split
CREATE INDEX CONCURRENTLY job_attempts_ended_badly ON job_attempts (ended_at)
    WHERE failure_class IN ('MODEL_CRASH', 'DEFECTIVE_RESULT', 'WORKER_LOST', 'PREEMPTED');
