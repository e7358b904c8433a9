-- The delayed jobs of each lane in the order in which they are queued: by time, and those of one
-- time by their order in the account's queue. It replaces the index by time alone.
DROP INDEX CONCURRENTLY IF EXISTS jobs_due;
--bun:split
CREATE INDEX CONCURRENTLY jobs_due ON jobs (lane, run_at, queue_order)
    WHERE status = 'SCHEDULED' OR status = 'BLOCKED' AND blocked_by = 0;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_starting;
