-- The statements that pick the next jobs are planned once for a connection, perhaps
-- while next to nothing waits: then each of these two indexes seems as good for them
-- as jobs_next, and reads a whole lane when it is long. Each now asks for a condition
-- that holds of every queued job, and that only the statements say which they are for.
-- Outside of a transaction: nobody has to wait for these.
DROP INDEX CONCURRENTLY IF EXISTS jobs_in_line_apart;
--bun:split
CREATE INDEX CONCURRENTLY jobs_in_line_apart ON jobs (account_id, lane, (lane <> tier AND lane <> 'CRITICAL'), queue_order)
    WHERE status = 'QUEUED' AND lane || '' <> '';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_wait_apart;
--bun:split
CREATE INDEX CONCURRENTLY jobs_by_wait_apart ON jobs (lane, tier, model, queued_at)
    WHERE status = 'QUEUED' AND lane || '' <> '';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_in_line;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_wait;
--bun:split
ALTER INDEX IF EXISTS jobs_in_line_apart RENAME TO jobs_in_line;
--bun:split
ALTER INDEX IF EXISTS jobs_by_wait_apart RENAME TO jobs_by_wait;
