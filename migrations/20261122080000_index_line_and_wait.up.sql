-- What is asked of the queue each second, in the order in which it is answered.
-- Outside of a transaction: nobody has to wait for these. The first two take the
-- places of others, so that a submit writes no more indexes than before; the third
-- has only jobs that name a user.
--
-- An account's jobs of a line in their order, in place of jobs_line.
DROP INDEX CONCURRENTLY IF EXISTS jobs_in_line;
--bun:split
CREATE INDEX CONCURRENTLY jobs_in_line ON jobs (account_id, lane, (lane <> tier AND lane <> 'CRITICAL'), queue_order) WHERE status = 'QUEUED';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_line;
--bun:split
-- What waits in a lane for a model, and for how long, in place of jobs_patience.
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_wait;
--bun:split
CREATE INDEX CONCURRENTLY jobs_by_wait ON jobs (lane, tier, model, queued_at) WHERE status = 'QUEUED';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_patience;
--bun:split
-- How many jobs of a user wait.
DROP INDEX CONCURRENTLY IF EXISTS jobs_waiting_of_user;
--bun:split
CREATE INDEX CONCURRENTLY jobs_waiting_of_user ON jobs (account_id, user_id)
    WHERE user_id IS NOT NULL AND status IN ('SCHEDULED', 'BLOCKED', 'QUEUED');
