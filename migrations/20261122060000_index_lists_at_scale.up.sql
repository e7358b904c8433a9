-- What long histories are read by. Outside of a transaction: nobody has to wait
-- for these. No row of jobs or attempts is in them, and none that is written more
-- than twice.
--
-- Deliveries that were tried and not delivered are few among many. Each try
-- writes next_attempt_at, which is indexed anyway.
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_failed;
--bun:split
CREATE INDEX CONCURRENTLY webhook_deliveries_failed ON webhook_deliveries (account_id, id)
    WHERE delivered_at IS NULL AND last_error IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_of_endpoint_failed;
--bun:split
CREATE INDEX CONCURRENTLY webhook_deliveries_of_endpoint_failed ON webhook_deliveries (endpoint_id, id)
    WHERE delivered_at IS NULL AND last_error IS NOT NULL;
--bun:split
-- Dead letters are counted, grouped and filtered by what these two hold, which
-- take the places of dead_letters_open and dead_letters_resolved. But for its
-- being resolved, a dead letter never changes.
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_unsettled;
--bun:split
CREATE INDEX CONCURRENTLY dead_letters_unsettled ON dead_letters (fingerprint, id)
    INCLUDE (failure_class, model, provider, created_at) WHERE resolved_at IS NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_open;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_settled;
--bun:split
CREATE INDEX CONCURRENTLY dead_letters_settled ON dead_letters (fingerprint, id)
    INCLUDE (failure_class, model, provider, created_at) WHERE resolved_at IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_resolved;
