-- Workflows: jobs that were submitted as one graph.
CREATE TABLE workflows (
    id                  uuid PRIMARY KEY,
    account_id          uuid        NOT NULL REFERENCES accounts,
    created_by          uuid REFERENCES api_keys,
    name                text        NOT NULL,
    status              text        NOT NULL CHECK (status IN ('RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED')),
    -- A retry of a workflow that has ended opens the next run.
    run                 integer     NOT NULL DEFAULT 1 CHECK (run >= 1),
    nodes               integer     NOT NULL CHECK (nodes BETWEEN 1 AND 10000),
    -- The nodes whose jobs have not ended, and those that ended badly, unless that is tolerated.
    -- The transaction that changes a job's status changes them.
    open                integer     NOT NULL CHECK (open BETWEEN 0 AND nodes),
    failed              integer     NOT NULL DEFAULT 0 CHECK (failed BETWEEN 0 AND nodes),
    -- The node whose result is the workflow's.
    output              text,
    callback_url        text,
    idempotency_key     text,
    request_digest      bytea       NOT NULL,
    cancel_by           text,
    cancel_reason       text,
    cancel_requested_at timestamptz,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    completed_at        timestamptz,
    CHECK ((status = 'RUNNING') = (open > 0)),
    CHECK ((status = 'RUNNING') = (completed_at IS NULL)),
    CHECK (status <> 'COMPLETED' OR failed = 0),
    CHECK (status <> 'FAILED' OR failed > 0),
    CHECK (status <> 'CANCELLED' OR cancel_requested_at IS NOT NULL)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX workflows_by_key ON workflows (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX workflows_of_account ON workflows (account_id, id);
CREATE INDEX workflows_by_name ON workflows (name, id);
CREATE INDEX workflows_running ON workflows (id) WHERE status = 'RUNNING';
-- The workflows whose cancellation is not complete.
CREATE INDEX workflows_cancelling ON workflows (id) WHERE status = 'RUNNING' AND cancel_requested_at IS NOT NULL;
CREATE INDEX workflows_over ON workflows (completed_at) WHERE completed_at IS NOT NULL;

-- A node is a job under a key. A job that an earlier workflow completed can be a node of others.
CREATE TABLE workflow_nodes (
    workflow_id       uuid    NOT NULL REFERENCES workflows ON DELETE CASCADE,
    key               text    NOT NULL,
    -- Its place in an order in which parents come first.
    position          integer NOT NULL CHECK (position >= 0),
    job_id            uuid    NOT NULL REFERENCES jobs,
    after             text[]  NOT NULL,
    on_parent_failure text    NOT NULL CHECK (on_parent_failure IN ('CASCADE', 'CONTINUE', 'RETRY_PARENT')),
    -- Whether the workflow can be COMPLETED although the node failed: it has dependents, and all
    -- of them run anyway; or it was skipped.
    tolerated         boolean NOT NULL,
    -- The same for nodes that do the same work, see WorkflowNode.Digest.
    digest            bytea   NOT NULL,
    reused            boolean NOT NULL,
    skipped_at        timestamptz,
    skipped_by        text,
    -- The parents that it no longer waits for.
    overridden        text[]  NOT NULL DEFAULT '{}',
    PRIMARY KEY (workflow_id, key),
    UNIQUE (workflow_id, position)
);
CREATE INDEX workflow_nodes_of_job ON workflow_nodes (job_id);
