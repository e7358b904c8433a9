-- The drafts of a time, for the sum of their GPU seconds. Neither column ever changes.
DROP INDEX CONCURRENTLY IF EXISTS jobs_drafts;
--bun:split
CREATE INDEX CONCURRENTLY jobs_drafts ON jobs (id, account_id) WHERE draft_steps IS NOT NULL;
