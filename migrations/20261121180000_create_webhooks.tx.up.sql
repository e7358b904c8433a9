SET LOCAL lock_timeout = '5s';

ALTER TABLE jobs ADD COLUMN callback_url text;

-- Where an account wants to hear of the ends of its jobs. The row without a URL
-- is the account's for the callbacks of single jobs: it holds their secret.
CREATE TABLE webhook_endpoints (
    id              uuid PRIMARY KEY,
    account_id      uuid        NOT NULL REFERENCES accounts,
    url             text CHECK (url <> ''),
    format          text        NOT NULL DEFAULT 'STANDARD' CHECK (format IN ('STANDARD', 'OPENAI')),
    events          text[]      NOT NULL CHECK (cardinality(events) > 0),
    -- Both secrets sign until the old one's time is over. A deleted row has none.
    secret          bytea,
    secret_key      bytea,
    old_secret      bytea,
    old_secret_key  bytea,
    old_secret_until timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    told_since      timestamptz NOT NULL DEFAULT clock_timestamp(), -- made, or enabled again
    -- Since when every try has failed, and how many.
    failing_since   timestamptz,
    failed_tries    integer     NOT NULL DEFAULT 0 CHECK (failed_tries >= 0),
    disabled_at     timestamptz,
    disabled_reason text,
    deleted_at      timestamptz,
    CHECK ((secret IS NULL) = (secret_key IS NULL)),
    CHECK ((secret IS NULL) = (deleted_at IS NOT NULL)),
    CHECK ((old_secret IS NULL) = (old_secret_key IS NULL) AND (old_secret IS NULL) = (old_secret_until IS NULL)),
    CHECK (secret IS NOT NULL OR old_secret IS NULL),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CHECK (url IS NOT NULL OR disabled_at IS NULL AND deleted_at IS NULL),
    CHECK ((failing_since IS NULL) = (failed_tries = 0))
) WITH (fillfactor = 70);

CREATE INDEX webhook_endpoints_of_account ON webhook_endpoints (account_id, id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX webhook_endpoints_one_for_callbacks ON webhook_endpoints (account_id) WHERE url IS NULL;

-- What is told: the end of a run, with the job's row as it stood then. It is
-- written in the transaction that ends the run, and only if somebody wants it.
CREATE TABLE webhook_events (
    id         uuid PRIMARY KEY,
    account_id uuid        NOT NULL REFERENCES accounts,
    job_id     uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    run        integer     NOT NULL,
    type       text        NOT NULL CHECK (type IN ('job.completed', 'job.failed', 'job.cancelled')),
    job        jsonb, -- gone once the job was deleted
    created_at timestamptz NOT NULL,
    UNIQUE (job_id, run)
);

CREATE INDEX webhook_events_by_age ON webhook_events (created_at);

-- An event on its way to one endpoint. A PENDING one that is claimed is due again
-- when the claim runs out.
CREATE TABLE webhook_deliveries (
    id               uuid PRIMARY KEY,
    event_id         uuid        NOT NULL REFERENCES webhook_events ON DELETE CASCADE,
    endpoint_id      uuid        NOT NULL REFERENCES webhook_endpoints,
    account_id       uuid        NOT NULL REFERENCES accounts,
    job_id           uuid        NOT NULL,
    run              integer     NOT NULL,
    event            text        NOT NULL, -- as its receiver calls it
    url              text        NOT NULL,
    state            text        NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'DELIVERED', 'GIVEN_UP')),
    once             boolean     NOT NULL DEFAULT false, -- it is sent again by hand: one try
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
) WITH (fillfactor = 70);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at) WHERE state = 'PENDING';
CREATE INDEX webhook_deliveries_claimed ON webhook_deliveries (claimed_until) WHERE claimed_until IS NOT NULL;
CREATE INDEX webhook_deliveries_of_job ON webhook_deliveries (job_id, endpoint_id, run);
CREATE INDEX webhook_deliveries_of_account ON webhook_deliveries (account_id, id);
CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_id, id);

CREATE TABLE webhook_tries (
    delivery_id uuid        NOT NULL REFERENCES webhook_deliveries ON DELETE CASCADE,
    try_no      integer     NOT NULL CHECK (try_no >= 1),
    at          timestamptz NOT NULL,
    status_code integer,
    error       text,
    duration_ms integer     NOT NULL CHECK (duration_ms >= 0),
    PRIMARY KEY (delivery_id, try_no)
);
