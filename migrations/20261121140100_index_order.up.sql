-- Outside of a transaction: nobody has to wait for these.
DROP INDEX CONCURRENTLY IF EXISTS jobs_next;
--bun:split
-- The head of an account's queue: by lane, line, model, GPU class and region.
CREATE INDEX CONCURRENTLY jobs_next ON jobs (
    lane, account_id, (lane <> tier AND lane <> 'CRITICAL'), model, gpu_rank, (coalesce(CASE WHEN require_region THEN region END, '')),
    queue_order) WHERE status = 'QUEUED';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_ready;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_line;
--bun:split
-- An account's jobs of a lane in their order: what is ahead of one.
CREATE INDEX CONCURRENTLY jobs_line ON jobs (account_id, lane, queue_order) WHERE status = 'QUEUED';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_patience;
--bun:split
-- What waited longer than its lane's patience.
CREATE INDEX CONCURRENTLY jobs_patience ON jobs (lane, tier, queued_at) WHERE status = 'QUEUED';
