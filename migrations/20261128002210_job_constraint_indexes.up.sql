-- The index for claims, with what jobs need. It replaces the one without.
DROP INDEX CONCURRENTLY IF EXISTS jobs_next_in_queue;
--bun:split
CREATE INDEX CONCURRENTLY jobs_next_in_queue ON jobs (
    lane, account_id, (lane <> tier AND lane <> 'CRITICAL'), model, gpu_rank, (coalesce(CASE WHEN require_region THEN region END, '')),
    needs, queue_order) WHERE status = 'QUEUED';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_next;
--bun:split
-- What the queued jobs of a lane need, for workers to choose their queues from.
DROP INDEX CONCURRENTLY IF EXISTS jobs_needs;
--bun:split
CREATE INDEX CONCURRENTLY jobs_needs ON jobs (lane, needs) WHERE status = 'QUEUED' AND needs <> '';
--bun:split
-- The queued jobs with a deadline, by when they are looked at again.
DROP INDEX CONCURRENTLY IF EXISTS jobs_slack;
--bun:split
CREATE INDEX CONCURRENTLY jobs_slack ON jobs (slack_until) WHERE status = 'QUEUED' AND slack_until IS NOT NULL;
