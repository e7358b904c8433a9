-- The open dead letters that operators see by default: ENDPOINT_FAILED is for the owners of the
-- jobs. models/dead_letter.go repeats this condition word for word.
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_for_operators;
--bun:split
CREATE INDEX CONCURRENTLY dead_letters_for_operators ON dead_letters (id)
    INCLUDE (fingerprint, failure_class, model, provider, created_at)
    WHERE resolved_at IS NULL AND failure_class NOT IN ('INVALID_INPUT', 'CONTENT_POLICY', 'DEPENDENCY_FAILED', 'BUDGET_EXCEEDED', 'ENDPOINT_FAILED');
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS dead_letters_of_operators;
