-- Who may use Reelay -------------------------------------------------------

CREATE TABLE accounts (
    id                 uuid PRIMARY KEY,
    name               text        NOT NULL CHECK (name <> ''),
    tier               text        NOT NULL CHECK (tier IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    max_queued         integer     NOT NULL CHECK (max_queued >= 0),
    max_running        integer     NOT NULL CHECK (max_running >= 0),
    submits_per_minute integer     NOT NULL CHECK (submits_per_minute >= 0),
    weight             float8      NOT NULL DEFAULT 1 CHECK (weight > 0),
    -- Jobs that wait (SCHEDULED, BLOCKED, QUEUED) and that a worker holds.
    queued             integer     NOT NULL DEFAULT 0 CHECK (queued >= 0),
    running            integer     NOT NULL DEFAULT 0 CHECK (running >= 0),
    created_at         timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);

-- An account's place within each lane (start-time fair queueing): each lease
-- advances virtual_time by the job's estimated GPU seconds over the weight.
CREATE TABLE account_lanes (
    account_id   uuid    NOT NULL REFERENCES accounts,
    lane         text    NOT NULL CHECK (lane IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    virtual_time float8  NOT NULL DEFAULT 0,
    queued       integer NOT NULL DEFAULT 0 CHECK (queued >= 0),
    PRIMARY KEY (account_id, lane)
) WITH (fillfactor = 70);

CREATE INDEX account_lanes_active ON account_lanes (lane, virtual_time) WHERE queued > 0;

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    account_id   uuid        NOT NULL REFERENCES accounts,
    name         text        NOT NULL,
    role         text        NOT NULL CHECK (role IN ('CLIENT', 'WORKER', 'OPERATOR', 'ADMIN')),
    prefix       text        NOT NULL,
    hash         bytea       NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    expires_at   timestamptz,
    revoked_at   timestamptz
);

-- A person's login to the console.
CREATE TABLE sessions (
    id           uuid PRIMARY KEY,
    key_id       uuid        NOT NULL REFERENCES api_keys ON DELETE CASCADE,
    hash         bytea       NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL
);

-- Capacity -----------------------------------------------------------------

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
    -- Null while it boots and again once it is over: nothing opens it then.
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
    ended_at             timestamptz,
    CHECK ((status = 'TERMINATED') = (ended_at IS NOT NULL)),
    CHECK (status <> 'TERMINATED' OR token_hash IS NULL)
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX workers_one_per_slot ON workers (provider, provider_instance_id, slot) WHERE status <> 'TERMINATED';
CREATE INDEX workers_of_pool ON workers (pool_id, id);

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

CREATE INDEX scaling_decisions_newest ON scaling_decisions (pool_id, id DESC);

-- Jobs ---------------------------------------------------------------------

CREATE SEQUENCE job_tickets;

CREATE TABLE jobs (
    id                  uuid PRIMARY KEY,
    account_id          uuid        NOT NULL REFERENCES accounts,
    created_by          uuid REFERENCES api_keys,
    type                text        NOT NULL,
    model               text        NOT NULL,
    status              text        NOT NULL CHECK (status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING', 'COMPLETED', 'FAILED', 'CANCELLED')),
    tier                text        NOT NULL CHECK (tier IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    lane                text        NOT NULL CHECK (lane IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    run                 integer     NOT NULL DEFAULT 1 CHECK (run >= 1),
    priority            integer     NOT NULL DEFAULT 0 CHECK (priority BETWEEN -100 AND 100),
    requeued            boolean     NOT NULL DEFAULT false,
    -- Age, as a number that only rises; below 2^42.
    ticket              bigint      NOT NULL DEFAULT nextval('job_tickets'),
    -- The place among the account's own jobs of a lane, lowest first: requeued
    -- ones, then by priority, then by age. Below 2^53, so that Redis's scores
    -- hold it exactly.
    queue_order         bigint      NOT NULL GENERATED ALWAYS AS (
        ((CASE WHEN requeued THEN 0 ELSE 1 END)::bigint << 50) | ((100 - priority)::bigint << 42) | ticket) STORED,
    params              jsonb       NOT NULL,
    metadata            jsonb,
    user_id             text,
    idempotency_key     text,
    request_digest      bytea,
    max_attempts        integer     NOT NULL CHECK (max_attempts BETWEEN 1 AND 20),
    timeout_seconds     integer     NOT NULL CHECK (timeout_seconds >= 1),
    estimated_gpu_seconds float8    NOT NULL CHECK (estimated_gpu_seconds > 0),
    run_at              timestamptz,
    attempt_no          integer     NOT NULL DEFAULT 0,
    -- Failures of this run that count against max_attempts.
    failures            integer     NOT NULL DEFAULT 0,
    event_seq           integer     NOT NULL DEFAULT 0,
    current_attempt_id  uuid,
    latest_checkpoint_id uuid,
    result_id           uuid,
    output              jsonb,
    failure_class       text,
    failure_reason      text,
    wasted_gpu_seconds  float8      NOT NULL DEFAULT 0,
    cancel_by           text,
    cancel_reason       text,
    cancel_requested_at timestamptz,
    cancel_delivered_at timestamptz,
    cancel_stopped_at   timestamptz,
    percent             float8      NOT NULL DEFAULT 0 CHECK (percent BETWEEN 0 AND 100),
    phase               text        NOT NULL DEFAULT 'WAITING',
    progress_message    text,
    step                integer,
    total_steps         integer,
    frame               integer,
    total_frames        integer,
    eta_seconds         float8,
    progress_at         timestamptz,
    -- What the thinned PROGRESS events were last written at.
    progress_event_at      timestamptz,
    progress_event_percent float8,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    queued_at           timestamptz,
    started_at          timestamptz,
    completed_at        timestamptz,
    CHECK ((status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')) = (current_attempt_id IS NOT NULL)),
    CHECK ((status IN ('COMPLETED', 'FAILED', 'CANCELLED')) = (completed_at IS NOT NULL)),
    CHECK (status <> 'SCHEDULED' OR run_at IS NOT NULL),
    -- A cancelled job does not complete.
    CHECK (status <> 'COMPLETED' OR cancel_requested_at IS NULL),
    CHECK (status <> 'CANCELLED' OR cancel_requested_at IS NOT NULL),
    CHECK (status <> 'FAILED' OR failure_class IS NOT NULL),
    CHECK ((idempotency_key IS NULL) = (request_digest IS NULL))
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX jobs_idempotency ON jobs (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_ready ON jobs (lane, account_id, model, queue_order) WHERE status = 'QUEUED';
CREATE INDEX jobs_due ON jobs (run_at) WHERE status = 'SCHEDULED';
CREATE INDEX jobs_live ON jobs (lane, model) WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING');
CREATE INDEX jobs_of_account ON jobs (account_id, id);
CREATE INDEX jobs_by_status ON jobs (status, id);

-- The prompt, encrypted under a key of its own; without wrapped_key nobody can
-- read it any more.
CREATE TABLE job_inputs (
    job_id      uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    ciphertext  bytea NOT NULL,
    wrapped_key bytea
);

CREATE TABLE job_attempts (
    id                   uuid PRIMARY KEY,
    job_id               uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    run                  integer     NOT NULL,
    attempt_no           integer     NOT NULL CHECK (attempt_no >= 1),
    worker_id            uuid        NOT NULL REFERENCES workers,
    fencing_token        uuid        NOT NULL UNIQUE,
    lease_request_id     text,
    status               text        NOT NULL CHECK (status IN ('LEASED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'LOST', 'RELEASED', 'CANCELLED')),
    leased_at            timestamptz NOT NULL,
    lease_expires_at     timestamptz NOT NULL,
    last_heartbeat_at    timestamptz,
    started_at           timestamptz,
    ended_at             timestamptz,
    resumed_from_step    integer,
    checkpoint_id        uuid,
    checkpoint_at        timestamptz,
    log_id               uuid,
    failure_class        text,
    failure_reason       text,
    gpu_seconds          float8      NOT NULL DEFAULT 0,
    wasted_gpu_seconds   float8      NOT NULL DEFAULT 0,
    UNIQUE (job_id, attempt_no),
    CHECK ((status IN ('LEASED', 'RUNNING')) = (ended_at IS NULL)),
    CHECK (status NOT IN ('FAILED', 'LOST', 'RELEASED') OR failure_class IS NOT NULL)
) WITH (fillfactor = 70);

-- One live attempt per job, and one per worker. There is no index on
-- lease_expires_at: heartbeats stay heap-only updates, and the reaper scans the
-- live attempts, which are as many as there are workers.
CREATE UNIQUE INDEX job_attempts_one_live_per_job ON job_attempts (job_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX job_attempts_one_live_per_worker ON job_attempts (worker_id) WHERE ended_at IS NULL;
CREATE INDEX job_attempts_of_worker ON job_attempts (worker_id);

ALTER TABLE jobs ADD FOREIGN KEY (current_attempt_id) REFERENCES job_attempts DEFERRABLE INITIALLY DEFERRED;

-- Keys that were issued to an attempt, for just that type, size and checksum.
CREATE TABLE uploads (
    object_key   text PRIMARY KEY,
    job_id       uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    attempt_id   uuid        NOT NULL REFERENCES job_attempts ON DELETE CASCADE,
    type         text        NOT NULL,
    content_type text        NOT NULL,
    size_bytes   bigint      NOT NULL CHECK (size_bytes > 0),
    checksum     text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX uploads_of_attempt ON uploads (attempt_id);

-- Objects that were verified at the store.
CREATE TABLE artifacts (
    id           uuid PRIMARY KEY,
    job_id       uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    account_id   uuid        NOT NULL REFERENCES accounts,
    attempt_id   uuid REFERENCES job_attempts,
    type         text        NOT NULL CHECK (type IN ('INPUT', 'CHECKPOINT', 'PREVIEW', 'FINAL_VIDEO', 'THUMBNAIL', 'SPRITESHEET', 'LOG')),
    object_key   text        NOT NULL UNIQUE,
    size_bytes   bigint      NOT NULL CHECK (size_bytes > 0),
    checksum     text        NOT NULL,
    content_type text        NOT NULL,
    step         integer,
    percent      float8,
    metadata     jsonb,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    rejected_at  timestamptz,
    CHECK (type <> 'CHECKPOINT' OR (step IS NOT NULL AND percent IS NOT NULL))
);

CREATE INDEX artifacts_of_job ON artifacts (job_id, id);

ALTER TABLE jobs ADD FOREIGN KEY (latest_checkpoint_id) REFERENCES artifacts DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs ADD FOREIGN KEY (result_id) REFERENCES artifacts DEFERRABLE INITIALLY DEFERRED;

-- Events, partitioned by ranges of job_id: a UUIDv7, hence by time. seq is the
-- job row's own counter.
CREATE TABLE job_events (
    job_id     uuid        NOT NULL,
    seq        integer     NOT NULL CHECK (seq >= 1),
    run        integer     NOT NULL,
    attempt_id uuid,
    type       text        NOT NULL,
    payload    jsonb       NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, seq)
) PARTITION BY RANGE (job_id);

-- One terminal event per run.
CREATE UNIQUE INDEX job_events_one_end_per_run ON job_events (job_id, run) WHERE type IN ('COMPLETED', 'FAILED', 'CANCELLED');

CREATE TABLE job_events_default PARTITION OF job_events DEFAULT;

-- The smallest UUIDv7 of a moment.
CREATE FUNCTION uuid7_floor(at timestamptz) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;

-- Makes the monthly partitions of job_events from this month to the given
-- number of months ahead. Safe to call at any time, by many at once.
CREATE FUNCTION make_job_event_partitions(months_ahead integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    month timestamptz;
    name  text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('make_job_event_partitions'));
    FOR i IN 0..months_ahead LOOP
        month := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => i)) AT TIME ZONE 'UTC';
        name := 'job_events_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM');
        IF to_regclass(name) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE TABLE %I PARTITION OF job_events FOR VALUES FROM (%L) TO (%L)', name,
                    uuid7_floor(month), uuid7_floor((month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC'));
            EXCEPTION WHEN check_violation THEN
                NULL; -- The default partition has events of that month: it keeps the rest of them too.
            END;
        END IF;
    END LOOP;
END
$$;

SELECT make_job_event_partitions(3);

-- Messages written in the transaction that they tell of, relayed after it.
CREATE TABLE outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          text        NOT NULL,
    payload       jsonb       NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz
);
