-- The results that jobs can have. They enter the index when they complete, so other changes of jobs do
-- not write it. NULLS FIRST is an order that the primary key does not have: see jobs_by_kind.
DROP INDEX CONCURRENTLY IF EXISTS jobs_reusable;

--bun:split
CREATE INDEX CONCURRENTLY jobs_reusable ON jobs (reuse_digest, account_id, id NULLS FIRST)
    WHERE status = 'COMPLETED' AND reuse_digest IS NOT NULL AND reuse_refs IS NULL;

--bun:split
-- Jobs with the same result share its objects, each by a row of its own.
DROP INDEX CONCURRENTLY IF EXISTS artifacts_of_object;

--bun:split
CREATE UNIQUE INDEX CONCURRENTLY artifacts_of_object ON artifacts (object_key, job_id) NULLS NOT DISTINCT;
