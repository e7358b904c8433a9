-- Outside of a transaction: nobody has to wait for these.
ALTER TABLE artifacts VALIDATE CONSTRAINT artifacts_input_check;
--bun:split
ALTER TABLE uploads VALIDATE CONSTRAINT uploads_input_check;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS uploads_of_input;
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY uploads_of_input ON uploads (artifact_id) WHERE type = 'INPUT';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS uploads_of_account;
--bun:split
CREATE INDEX CONCURRENTLY uploads_of_account ON uploads (account_id, created_at) WHERE type = 'INPUT';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS artifacts_inputs;
--bun:split
CREATE INDEX CONCURRENTLY artifacts_inputs ON artifacts (review_at) WHERE type = 'INPUT';
