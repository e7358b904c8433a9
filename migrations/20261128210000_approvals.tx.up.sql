-- Approvals: nodes of workflows that wait until a person or a program picks one of their candidates.
SET LOCAL lock_timeout = '5s';

-- A question that was asked: in each run of a job of the type workflow.approval once. Until the answer, the job is
-- BLOCKED.
CREATE TABLE approvals (
    job_id     uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    run        integer     NOT NULL,
    asked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the default is applied.
    expires_at timestamptz NOT NULL,
    on_timeout text        NOT NULL CHECK (on_timeout IN ('reject', 'approve', 'first')),
    decided_at timestamptz,
    decision   text CHECK (decision IN ('APPROVED', 'REJECTED')),
    -- The candidate whose result the job has.
    picked     uuid REFERENCES jobs ON DELETE SET NULL,
    -- Who decided, for people, and why.
    decided_by text,
    note       text,
    PRIMARY KEY (job_id, run),
    CHECK (num_nonnulls(decided_at, decision, decided_by) IN (0, 3)),
    CHECK (picked IS NULL OR decision = 'APPROVED')
);
-- A run that was approved is the last one.
CREATE UNIQUE INDEX approvals_approved ON approvals (job_id) WHERE decision = 'APPROVED';
-- The open questions by the time of their default.
CREATE INDEX approvals_open ON approvals (expires_at) WHERE decided_at IS NULL;
-- The approvals that have a job's result.
CREATE INDEX approvals_of ON approvals (picked) WHERE picked IS NOT NULL;

-- The approvals whose question is to be asked: they wait for nothing else. The question and its answer count as two
-- in blocked_by.
CREATE INDEX jobs_asking ON jobs (id) WHERE type = 'workflow.approval' AND status = 'BLOCKED' AND blocked_by = 2;

-- Returns the job that made the files of a job: for an approval, the candidate that was picked.
CREATE FUNCTION made_by(job uuid) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT a.picked FROM approvals a WHERE a.job_id = job AND a.picked IS NOT NULL), job)
$$;

-- Returns the jobs that have the result of a job: itself, and the approvals for which it was picked.
CREATE FUNCTION sources_of(job uuid) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
    SELECT job UNION ALL SELECT a.job_id FROM approvals a WHERE a.picked = job
$$;

-- An event of a workflow can be about one of its nodes.
ALTER TABLE webhook_events ADD COLUMN approval_id uuid;
ALTER TABLE webhook_events DROP CONSTRAINT webhook_events_type_check;
ALTER TABLE webhook_events ADD CONSTRAINT webhook_events_type_check CHECK (type IN (
    'job.completed', 'job.failed', 'job.cancelled', 'webhook.test',
    'workflow.completed', 'workflow.failed', 'workflow.cancelled', 'workflow.approval_requested')) NOT VALID;
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_type_check;
ALTER TABLE webhook_events ADD CONSTRAINT webhook_events_approval_check
    CHECK ((approval_id IS NOT NULL) = (type = 'workflow.approval_requested')) NOT VALID;
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_approval_check;
DROP INDEX webhook_events_of_workflow;
CREATE UNIQUE INDEX webhook_events_of_workflow ON webhook_events (workflow_id, run) WHERE workflow_id IS NOT NULL AND approval_id IS NULL;
CREATE UNIQUE INDEX webhook_events_of_approval ON webhook_events (approval_id, run) WHERE approval_id IS NOT NULL;

-- A rejection is for the owner of the workflow. models/dead_letter.go repeats this condition word for word.
DROP INDEX dead_letters_for_operators;
CREATE INDEX dead_letters_for_operators ON dead_letters (id)
    INCLUDE (fingerprint, failure_class, model, provider, created_at)
    WHERE resolved_at IS NULL AND failure_class NOT IN (
        'INVALID_INPUT', 'CONTENT_POLICY', 'DEPENDENCY_FAILED', 'BUDGET_EXCEEDED', 'ENDPOINT_FAILED', 'REJECTED');
