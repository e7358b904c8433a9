CREATE TABLE pools (
    id                     uuid PRIMARY KEY,
    name                   text        NOT NULL CHECK (name <> ''),
    provider               text        NOT NULL CHECK (provider <> ''),
    region                 text        NOT NULL,
    gpu_type               text        NOT NULL,
    capacity_class         text        NOT NULL CHECK (capacity_class IN ('SPOT', 'ON_DEMAND')),
    models                 text[]      NOT NULL,
    min_workers            integer     NOT NULL CHECK (min_workers >= 0),
    max_workers            integer     NOT NULL CHECK (max_workers >= min_workers),
    idle_seconds           integer     NOT NULL DEFAULT 60 CHECK (idle_seconds >= 0),
    desired                integer     NOT NULL DEFAULT 0 CHECK (desired >= 0),
    created_at             timestamptz NOT NULL DEFAULT now(),
    zones                  text[]      NOT NULL DEFAULT '{}',
    machine_type           text        NOT NULL DEFAULT '',
    warm_workers           integer     NOT NULL DEFAULT 0 CHECK (warm_workers >= 0),
    boot_limit_seconds     integer     NOT NULL DEFAULT 600 CHECK (boot_limit_seconds > 0),
    price_per_hour_usd     float8      NOT NULL DEFAULT 0 CHECK (price_per_hour_usd >= 0 AND price_per_hour_usd < 'Infinity'),
    active_hours           text        NOT NULL DEFAULT '',
    settings               jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(settings) = 'object'),
    paused_at              timestamptz,
    -- Workers and attempts of the past name the row of a pool that was deleted.
    deleted_at             timestamptz,
    -- How long the scaler leaves the pool alone after its provider refused machines, and why.
    backoff_until          timestamptz,
    backoff_class          text        NOT NULL DEFAULT '',
    backoff_reason         text        NOT NULL DEFAULT '',
    -- How many creations in a row the provider refused.
    refusals               integer     NOT NULL DEFAULT 0 CHECK (refusals >= 0),
    accounts               uuid[]      NOT NULL DEFAULT '{}',
    yielding_tiers         text[]      NOT NULL DEFAULT '{BATCH}',
    workers_per_machine    integer     NOT NULL DEFAULT 1 CHECK (workers_per_machine BETWEEN 1 AND 64),
    gpus_per_worker        integer     NOT NULL DEFAULT 1 CHECK (gpus_per_worker BETWEEN 1 AND 64),
    price_source           text        NOT NULL DEFAULT '',
    max_price_per_hour_usd float8      NOT NULL DEFAULT 0 CHECK (max_price_per_hour_usd >= 0 AND max_price_per_hour_usd < 'Infinity'),
    hold_on_failure        boolean     NOT NULL DEFAULT false,
    -- The lanes that the pool serves, empty for all.
    tiers                  text[]      NOT NULL DEFAULT '{}',
    -- What the price source said last: the price of one worker for an hour, in US dollars. NULL: it
    -- has said none.
    quoted_usd             float8      CHECK (quoted_usd >= 0 AND quoted_usd < 'Infinity'),
    -- The time that the source states for it.
    quoted_at              timestamptz,
    -- From when it is stale, and from when it no longer counts. NULL: never.
    quote_stale_at         timestamptz,
    quote_ends_at          timestamptz,
    -- What the source knows of the hours to come: a list of {from, pricePerHourUsd}, in order.
    quote_ahead            jsonb,
    -- Why the source gave no price when it was last read.
    quote_problem          text        NOT NULL DEFAULT '',
    -- Jobs of BATCH boot no workers of the pool now: they wait for cheaper ones.
    batch_waits            boolean     NOT NULL DEFAULT false,
    -- What the provider says of its spot machines, as JSON. NULL: it has not been asked.
    advice                 jsonb,
    -- Why the provider could not list or delete its machines when it was last asked, and since when.
    provider_problem       text        NOT NULL DEFAULT '',
    provider_problem_since timestamptz,
    -- How many machines in a row did not start, why the newest did not, and when it ended.
    boot_failures          integer     NOT NULL DEFAULT 0,
    boot_failure           text        NOT NULL DEFAULT '',
    boot_failed_at         timestamptz,
    -- The newest of them had registered, and ended soon after.
    boot_exits             boolean     NOT NULL DEFAULT false,
    -- How often in a row the pool made a pause, and when the newest began and ends.
    boot_pauses            integer     NOT NULL DEFAULT 0,
    boot_paused_at         timestamptz,
    boot_retry_at          timestamptz,
    -- When the active hours begin again, as the scaler last found it outside of them. NULL within them.
    closed_until           timestamptz,
    -- Who paused the pool: the id of a key, or the address of a member. '' while it is not paused.
    paused_by              text        NOT NULL DEFAULT ''
);

CREATE UNIQUE INDEX pools_name ON pools (name) WHERE deleted_at IS NULL;

-- pool_price returns what a worker of a pool costs per hour now, in US dollars.
CREATE FUNCTION pool_price(pool pools) RETURNS float8 LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN pool.quoted_usd IS NOT NULL AND (pool.quote_ends_at IS NULL OR pool.quote_ends_at > now())
        THEN pool.quoted_usd ELSE pool.price_per_hour_usd END
$$;

-- A heartbeat writes a new version of each row that it renews. The fillfactor leaves room for
-- a second version of every row of a page: updates stay heap-only.
CREATE TABLE workers (
    id                   uuid PRIMARY KEY,
    pool_id              uuid REFERENCES pools,
    provider             text        NOT NULL,
    provider_instance_id text        NOT NULL,
    slot                 integer     NOT NULL DEFAULT 0,
    gpu_count            integer     NOT NULL DEFAULT 1,
    region               text        NOT NULL,
    zone                 text,
    gpu_type             text        NOT NULL,
    gpu_memory_bytes     bigint,
    capacity_class       text        NOT NULL CHECK (capacity_class IN ('SPOT', 'ON_DEMAND')),
    models               text[]      NOT NULL,
    warm_models          text[]      NOT NULL DEFAULT '{}',
    agent_version        text        NOT NULL DEFAULT '',
    status               text        NOT NULL CHECK (status IN ('BOOTING', 'IDLE', 'BUSY', 'DRAINING', 'LOST', 'TERMINATED')),
    -- NULL while the worker boots, and again after its end: then no token is valid.
    token_hash           bytea UNIQUE,
    enrolment_key_id     uuid REFERENCES api_keys,
    drain_reason         text,
    drain_deadline       timestamptz,
    gpu_utilization      float8[],
    jobs_completed       integer     NOT NULL DEFAULT 0,
    gpu_seconds          float8      NOT NULL DEFAULT 0,
    created_at           timestamptz NOT NULL DEFAULT now(),
    registered_at        timestamptz,
    last_heartbeat_at    timestamptz,
    idle_since           timestamptz,
    -- When the worker was last declared lost.
    lost_at              timestamptz,
    ended_at             timestamptz,
    -- The machine whose signed identity registered the worker, as project/zone/name. NULL for
    -- workers that a key enrolled.
    machine              text,
    -- Copies of the pool's, so that a lease reads no pool: the lanes that it serves, and the accounts
    -- that it is dedicated to. Empty: all.
    tiers                text[]      NOT NULL DEFAULT '{}',
    accounts             uuid[]      NOT NULL DEFAULT '{}',
    -- What the worker costs per hour, as its pool says. NULL: unknown.
    price_per_hour_usd   double precision,
    -- What holds for the worker's host (quarantines).
    quarantined_until    timestamptz,
    quarantine_cause     text        NOT NULL DEFAULT '',
    quarantine_reason    text        NOT NULL DEFAULT '',
    -- Why its registration was refused, or why it ended before it registered.
    boot_failure         text,
    CHECK ((status = 'TERMINATED') = (ended_at IS NOT NULL)),
    CHECK (status <> 'TERMINATED' OR token_hash IS NULL)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- One living worker per slot of an instance. No index here has status in it: a worker's status
-- changes with each job, and such a change would write every index of the table.
CREATE UNIQUE INDEX workers_one_per_slot ON workers (provider, provider_instance_id, slot) WHERE ended_at IS NULL;
-- The workers of a pool, for the scaler and for lists.
CREATE INDEX workers_of_pool ON workers (pool_id, id);
-- The share of the fleet that was lost recently.
CREATE INDEX workers_lost ON workers (lost_at) WHERE lost_at IS NOT NULL;
-- The ended workers that the upkeep deletes.
CREATE INDEX workers_over ON workers (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE scaling_decisions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool_id    uuid        NOT NULL REFERENCES pools ON DELETE CASCADE,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    from_count integer     NOT NULL,
    to_count   integer     NOT NULL,
    reason     text        NOT NULL,
    inputs     jsonb       NOT NULL,
    error      text
);

-- A pool's newest decisions.
CREATE INDEX scaling_decisions_newest ON scaling_decisions (pool_id, id DESC);

-- The newest samples of each worker's GPUs. They are not columns of workers, whose rows each lease
-- reads and writes as a whole.
CREATE TABLE worker_gpus (
    worker_id  uuid PRIMARY KEY REFERENCES workers ON DELETE CASCADE,
    gpus       jsonb       NOT NULL,
    sampled_at timestamptz NOT NULL
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- How busy each worker's GPUs were in the last two hours: a value a minute, the newest first, at most
-- 120. It is in whole percent and degrees, NULL if unknown, so that a row has less than a kilobyte.
-- It is not part of worker_gpus, which each heartbeat writes.
CREATE TABLE worker_gpu_history (
    worker_id   uuid PRIMARY KEY REFERENCES workers ON DELETE CASCADE,
    -- The minute of the newest values.
    at          timestamptz NOT NULL,
    -- The mean of the worker's GPUs, the memory of all of them, and the hottest.
    utilization smallint[]  NOT NULL,
    memory      smallint[]  NOT NULL,
    temperature smallint[]  NOT NULL
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The SHA-256 of the identity tokens that registered a worker, until they expire: each token is
-- good for one registration.
CREATE TABLE used_identities (
    hash       bytea       PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX used_identities_expired ON used_identities (expires_at);

-- Hosts that get no jobs for a while. A host is a machine of a provider: its workers of the future
-- count, too. The columns of workers repeat what holds for their host.
CREATE TABLE quarantines (
    provider             text        NOT NULL,
    provider_instance_id text        NOT NULL,
    -- NULL: an operator released the host.
    until                timestamptz,
    cause                text        NOT NULL CHECK (cause IN ('OPERATOR', 'CRASHES', 'GPU')),
    reason               text        NOT NULL,
    -- How often the host was quarantined without an operator.
    times                integer     NOT NULL DEFAULT 0 CHECK (times >= 0),
    -- When it was last quarantined or released.
    changed_at           timestamptz NOT NULL,
    PRIMARY KEY (provider, provider_instance_id)
);

-- What a worker of a pool costs since a time, until the next row.
CREATE TABLE pool_prices (
    pool_id uuid        NOT NULL REFERENCES pools ON DELETE CASCADE,
    since   timestamptz NOT NULL,
    usd     float8      NOT NULL,
    PRIMARY KEY (pool_id, since)
);
