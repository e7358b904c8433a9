-- Where an account is notified of the ends of its jobs. The row without a URL holds the secret
-- for the callback URLs of single jobs.
CREATE TABLE webhook_endpoints (
    id               uuid PRIMARY KEY,
    account_id       uuid        NOT NULL REFERENCES accounts,
    url              text CHECK (url <> ''),
    format           text        NOT NULL DEFAULT 'STANDARD' CHECK (format IN ('STANDARD', 'OPENAI')),
    events           text[]      NOT NULL CHECK (cardinality(events) > 0),
    -- Both secrets sign until old_secret_until. A deleted row has none.
    secret           bytea,
    secret_key       bytea,
    old_secret       bytea,
    old_secret_key   bytea,
    old_secret_until timestamptz,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it was created or last enabled.
    told_since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Since when every try has failed, and how many did.
    failing_since    timestamptz,
    failed_tries     integer     NOT NULL DEFAULT 0 CHECK (failed_tries >= 0),
    disabled_at      timestamptz,
    disabled_reason  text,
    deleted_at       timestamptz,
    CHECK ((secret IS NULL) = (secret_key IS NULL)),
    CHECK ((secret IS NULL) = (deleted_at IS NOT NULL)),
    CHECK ((old_secret IS NULL) = (old_secret_key IS NULL) AND (old_secret IS NULL) = (old_secret_until IS NULL)),
    CHECK (secret IS NOT NULL OR old_secret IS NULL),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CHECK (url IS NOT NULL OR disabled_at IS NULL AND deleted_at IS NULL),
    CHECK ((failing_since IS NULL) = (failed_tries = 0))
) WITH (fillfactor = 70);

-- An account's endpoints, for lists and for the end of a job.
CREATE INDEX webhook_endpoints_of_account ON webhook_endpoints (account_id, id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX webhook_endpoints_one_for_callbacks ON webhook_endpoints (account_id) WHERE url IS NULL;

-- The end of a run of a job or of a workflow, or a test of an endpoint. The event of an end
-- is written in the transaction that ends the run, and only if an endpoint subscribes to it.
CREATE TABLE webhook_events (
    id          uuid PRIMARY KEY,
    account_id  uuid        NOT NULL REFERENCES accounts,
    job_id      uuid REFERENCES jobs ON DELETE CASCADE,
    run         integer     NOT NULL,
    type        text        NOT NULL CHECK (type IN (
        'job.completed', 'job.failed', 'job.cancelled', 'webhook.test',
        'workflow.completed', 'workflow.failed', 'workflow.cancelled')),
    -- The job's row as it stood then. NULL once the job was deleted.
    job         jsonb,
    created_at  timestamptz NOT NULL,
    workflow_id uuid,
    UNIQUE (job_id, run),
    CONSTRAINT webhook_events_job_check CHECK (
        (job_id IS NOT NULL) = (type LIKE 'job.%') AND (workflow_id IS NOT NULL) = (type LIKE 'workflow.%'))
);

-- A run of a workflow ends once.
CREATE UNIQUE INDEX webhook_events_of_workflow ON webhook_events (workflow_id, run) WHERE workflow_id IS NOT NULL;
-- The old events that the upkeep deletes.
CREATE INDEX webhook_events_by_age ON webhook_events (created_at);

-- An event on its way to one endpoint. A claimed PENDING delivery is due again when the claim
-- runs out.
CREATE TABLE webhook_deliveries (
    id               uuid PRIMARY KEY,
    event_id         uuid        NOT NULL REFERENCES webhook_events ON DELETE CASCADE,
    endpoint_id      uuid        NOT NULL REFERENCES webhook_endpoints,
    account_id       uuid        NOT NULL REFERENCES accounts,
    job_id           uuid        NOT NULL,
    run              integer     NOT NULL,
    -- The event's name in the receiver's format.
    event            text        NOT NULL,
    url              text        NOT NULL,
    state            text        NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'DELIVERED', 'GIVEN_UP')),
    -- A person sends it again: there is one try.
    once             boolean     NOT NULL DEFAULT false,
    tries            integer     NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_attempt_at  timestamptz DEFAULT clock_timestamp(),
    claimed_until    timestamptz,
    first_try_at     timestamptz,
    last_status_code integer,
    last_error       text,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    delivered_at     timestamptz,
    UNIQUE (event_id, endpoint_id),
    CHECK ((state = 'PENDING') = (next_attempt_at IS NOT NULL)),
    CHECK (state = 'PENDING' OR claimed_until IS NULL),
    CHECK (state <> 'DELIVERED' OR delivered_at IS NOT NULL),
    CHECK (state <> 'GIVEN_UP' OR last_error IS NOT NULL),
    CHECK (once OR state = 'DELIVERED' OR delivered_at IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- The due deliveries of each endpoint, and the claimed ones, for claims.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at) WHERE state = 'PENDING';
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (claimed_until) WHERE claimed_until IS NOT NULL;
-- A job's deliveries, and the earlier ones that a delivery waits for.
CREATE INDEX webhook_deliveries_of_job ON webhook_deliveries (job_id, endpoint_id, run);
-- Lists of deliveries, and of the few that were tried and not delivered.
CREATE INDEX webhook_deliveries_of_account ON webhook_deliveries (account_id, id);
CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (account_id, id)
    WHERE delivered_at IS NULL AND last_error IS NOT NULL;
CREATE INDEX webhook_deliveries_of_endpoint_failed ON webhook_deliveries (endpoint_id, id)
    WHERE delivered_at IS NULL AND last_error IS NOT NULL;

CREATE TABLE webhook_tries (
    delivery_id uuid        NOT NULL REFERENCES webhook_deliveries ON DELETE CASCADE,
    try_no      integer     NOT NULL CHECK (try_no >= 1),
    at          timestamptz NOT NULL,
    status_code integer,
    error       text,
    duration_ms integer     NOT NULL CHECK (duration_ms >= 0),
    PRIMARY KEY (delivery_id, try_no)
);
