DROP INDEX CONCURRENTLY IF EXISTS schedules_key;
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY schedules_key ON schedules (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
