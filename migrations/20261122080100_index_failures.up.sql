-- Failed jobs are counted by class and kind from these alone. Outside of a
-- transaction: nobody has to wait for them. They take the places of two that lack
-- the kind, and have failed jobs only.
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_class;
--bun:split
CREATE INDEX CONCURRENTLY jobs_by_class ON jobs (failure_class, id NULLS FIRST)
    INCLUDE (status, tier, type, model) WHERE failure_class IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_failure;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_account_by_class;
--bun:split
CREATE INDEX CONCURRENTLY jobs_of_account_by_class ON jobs (account_id, failure_class, id NULLS FIRST)
    INCLUDE (status, tier, type, model) WHERE failure_class IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS jobs_of_account_by_failure;
