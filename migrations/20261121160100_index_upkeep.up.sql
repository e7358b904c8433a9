-- What the upkeep finds its work by. Outside of a transaction: nobody has to
-- wait for these.
DROP INDEX CONCURRENTLY IF EXISTS artifacts_review;
--bun:split
CREATE INDEX CONCURRENTLY artifacts_review ON artifacts (review_at);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS uploads_by_age;
--bun:split
CREATE INDEX CONCURRENTLY uploads_by_age ON uploads (created_at);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_over;
--bun:split
CREATE INDEX CONCURRENTLY jobs_over ON jobs (completed_at) WHERE completed_at IS NOT NULL;
--bun:split
-- The few whose events may be younger than their month's.
DROP INDEX CONCURRENTLY IF EXISTS jobs_long;
--bun:split
CREATE INDEX CONCURRENTLY jobs_long ON jobs (id) WHERE completed_at - created_at > interval '24 hours';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS workers_over;
--bun:split
CREATE INDEX CONCURRENTLY workers_over ON workers (ended_at) WHERE ended_at IS NOT NULL;
