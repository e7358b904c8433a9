-- Tables with rows like those of Reelay, and only the indexes that the scripts need.
CREATE TABLE jobs (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account_id bigint      NOT NULL DEFAULT 1,
    model      text        NOT NULL DEFAULT 'noop',
    status     text        NOT NULL DEFAULT 'QUEUED',
    lane       text        NOT NULL DEFAULT 'BATCH',
    priority   integer     NOT NULL DEFAULT 0,
    sort_key   bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    params     jsonb       NOT NULL,
    attempt_no integer     NOT NULL DEFAULT 0,
    attempt_id uuid,
    percent    float8      NOT NULL DEFAULT 0,
    phase      text        NOT NULL DEFAULT 'WAITING',
    output     jsonb,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz
) WITH (fillfactor = 70);
CREATE INDEX jobs_ready ON jobs (lane, sort_key) WHERE status = 'QUEUED';
CREATE INDEX jobs_of_account ON jobs (account_id, id);

CREATE TABLE attempts (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    n                bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    job_id           uuid        NOT NULL,
    worker_id        bigint      NOT NULL DEFAULT 1,
    fencing_token    uuid        NOT NULL DEFAULT gen_random_uuid(),
    status           text        NOT NULL DEFAULT 'LEASED',
    leased_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_expires_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at         timestamptz
) WITH (fillfactor = 70);

CREATE TABLE events (
    job_id     uuid        NOT NULL,
    seq        integer     NOT NULL,
    type       text        NOT NULL,
    payload    jsonb       NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, seq)
);

CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic      text        NOT NULL DEFAULT 'job',
    payload    jsonb       NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE artifacts (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id     uuid        NOT NULL,
    object_key text        NOT NULL,
    size_bytes bigint      NOT NULL,
    step       integer     NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
