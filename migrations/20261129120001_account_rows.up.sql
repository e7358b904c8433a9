-- The rows of an account that is deleted, for which there was no index.
DROP INDEX CONCURRENTLY IF EXISTS artifacts_inputs_of_account;

--bun:split
CREATE INDEX CONCURRENTLY artifacts_inputs_of_account ON artifacts (account_id) WHERE type = 'INPUT';

--bun:split
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_of_account;

--bun:split
CREATE INDEX CONCURRENTLY webhook_events_of_account ON webhook_events (account_id) WHERE job_id IS NULL;
