-- A draft is continued by one job.
DROP INDEX CONCURRENTLY IF EXISTS jobs_continuing;
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY jobs_continuing ON jobs (continues) WHERE continues IS NOT NULL;
--bun:split
-- The drafts of one request.
DROP INDEX CONCURRENTLY IF EXISTS jobs_takes;
--bun:split
CREATE INDEX CONCURRENTLY jobs_takes ON jobs (takes_id, id) WHERE takes_id IS NOT NULL;
--bun:split
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_draft_check;
--bun:split
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_continues_fkey;
