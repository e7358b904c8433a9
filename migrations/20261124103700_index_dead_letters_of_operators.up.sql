-- What operators see of the open dead letters by default: not those of customers' errors
-- and cascades, which may be many more.
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_of_operators;
--bun:split
CREATE INDEX CONCURRENTLY dead_letters_of_operators ON dead_letters (id)
    INCLUDE (fingerprint, failure_class, model, provider, created_at)
    WHERE resolved_at IS NULL AND failure_class NOT IN ('INVALID_INPUT', 'CONTENT_POLICY', 'DEPENDENCY_FAILED', 'BUDGET_EXCEEDED');
