-- The record of a run that failed for good, until an operator resolves it.
CREATE TABLE dead_letters (
    id            uuid PRIMARY KEY,
    job_id        uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    run           integer     NOT NULL,
    model         text        NOT NULL,
    provider      text,
    failure_class text        NOT NULL,
    reason        text        NOT NULL,
    -- The same for failures of the same cause.
    fingerprint   text        NOT NULL,
    attempts      integer     NOT NULL,
    log_id        uuid,
    created_at    timestamptz NOT NULL,
    resolved_at   timestamptz,
    resolution    text CHECK (resolution IN ('REDRIVEN', 'RETRIED', 'DISCARDED', 'DELETED')),
    resolved_by   text,
    note          text,
    UNIQUE (job_id, run),
    CHECK ((resolved_at IS NULL) = (resolution IS NULL))
);

-- Open and resolved dead letters, which are counted, grouped and filtered from these alone.
CREATE INDEX dead_letters_unsettled ON dead_letters (fingerprint, id)
    INCLUDE (failure_class, model, provider, created_at) WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_settled ON dead_letters (fingerprint, id)
    INCLUDE (failure_class, model, provider, created_at) WHERE resolved_at IS NOT NULL;
-- The open dead letters that operators see by default. Those that customers caused, their
-- cascades, and those for the owners of the jobs can be many more. models/dead_letter.go repeats
-- this condition word for word.
CREATE INDEX dead_letters_for_operators ON dead_letters (id)
    INCLUDE (fingerprint, failure_class, model, provider, created_at)
    WHERE resolved_at IS NULL AND failure_class NOT IN (
        'INVALID_INPUT', 'CONTENT_POLICY', 'DEPENDENCY_FAILED', 'BUDGET_EXCEEDED', 'ENDPOINT_FAILED');
-- Lists of jobs that have an open dead letter.
CREATE INDEX dead_letters_of_job ON dead_letters (job_id NULLS FIRST) WHERE resolved_at IS NULL;
