CREATE TABLE pools (
    id             uuid PRIMARY KEY,
    name           text        NOT NULL UNIQUE CHECK (name <> ''),
    provider       text        NOT NULL CHECK (provider <> ''),
    region         text        NOT NULL,
    gpu_type       text        NOT NULL,
    capacity_class text        NOT NULL CHECK (capacity_class IN ('SPOT', 'ON_DEMAND')),
    models         text[]      NOT NULL,
    min_workers    integer     NOT NULL CHECK (min_workers >= 0),
    max_workers    integer     NOT NULL CHECK (max_workers >= min_workers),
    idle_seconds   integer     NOT NULL DEFAULT 60 CHECK (idle_seconds >= 0),
    desired        integer     NOT NULL DEFAULT 0 CHECK (desired >= 0),
    created_at     timestamptz NOT NULL DEFAULT now()
);

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
