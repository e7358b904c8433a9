-- A heartbeat writes a new version of each row that it renews. The fillfactor leaves room for
-- a second version of every row of a page: updates stay heap-only.
CREATE TABLE job_attempts (
    id                 uuid PRIMARY KEY,
    job_id             uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    run                integer     NOT NULL,
    attempt_no         integer     NOT NULL CHECK (attempt_no >= 1),
    worker_id          uuid        NOT NULL REFERENCES workers,
    fencing_token      uuid        NOT NULL UNIQUE,
    lease_request_id   text,
    status             text        NOT NULL CHECK (status IN ('LEASED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'LOST', 'RELEASED', 'CANCELLED')),
    leased_at          timestamptz NOT NULL,
    lease_expires_at   timestamptz NOT NULL,
    last_heartbeat_at  timestamptz,
    started_at         timestamptz,
    ended_at           timestamptz,
    resumed_from_step  integer,
    -- The newest checkpoint of this attempt.
    checkpoint_id      uuid,
    checkpoint_at      timestamptz,
    log_id             uuid,
    -- The number of uploads that were issued to this attempt.
    uploads            integer     NOT NULL DEFAULT 0,
    failure_class      text,
    failure_reason     text,
    error_detail       text,
    -- The attempt counts against the job's max_attempts.
    counted            boolean     NOT NULL DEFAULT false,
    gpu_seconds        float8      NOT NULL DEFAULT 0,
    wasted_gpu_seconds float8      NOT NULL DEFAULT 0,
    -- The request that the attempt gives way to a job of a higher lane, which yield_to names.
    yield_requested_at timestamptz,
    yield_to           text,
    UNIQUE (job_id, attempt_no),
    CHECK ((status IN ('LEASED', 'RUNNING')) = (ended_at IS NULL)),
    CHECK (status NOT IN ('FAILED', 'LOST', 'RELEASED') OR failure_class IS NOT NULL)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 5000);

-- One live attempt per job, and one per worker. lease_expires_at has no index, so that
-- heartbeats write none: the reaper scans the live attempts, at most one per worker.
CREATE UNIQUE INDEX job_attempts_one_live_per_job ON job_attempts (job_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX job_attempts_one_live_per_worker ON job_attempts (worker_id) WHERE ended_at IS NULL;
-- A worker's request gets one lease, however often and however late it is repeated.
CREATE UNIQUE INDEX job_attempts_one_per_request ON job_attempts (worker_id, lease_request_id) WHERE lease_request_id IS NOT NULL;
-- Lists of a worker's jobs. NULLS FIRST as in the indexes for lists of jobs.
CREATE INDEX job_attempts_by_worker ON job_attempts (worker_id, job_id NULLS FIRST);

-- The ended attempts of a worker, newest first: its page.
CREATE INDEX job_attempts_of_worker ON job_attempts (worker_id, id NULLS FIRST) WHERE ended_at IS NOT NULL;
-- The attempts that make a host suspect.
CREATE INDEX job_attempts_suspect ON job_attempts (ended_at) WHERE failure_class IN ('MODEL_CRASH', 'DEFECTIVE_RESULT');
-- The attempts that a host lost or spoiled, by when they ended: which host eats jobs, and what a
-- reclamation cost. Few attempts end like this.
CREATE INDEX job_attempts_ended_badly ON job_attempts (ended_at)
    WHERE failure_class IN ('MODEL_CRASH', 'DEFECTIVE_RESULT', 'WORKER_LOST', 'PREEMPTED');

ALTER TABLE jobs ADD FOREIGN KEY (current_attempt_id) REFERENCES job_attempts DEFERRABLE INITIALLY DEFERRED;

-- For the foreign key, when an attempt is deleted.
CREATE INDEX jobs_current_attempt ON jobs (current_attempt_id) WHERE current_attempt_id IS NOT NULL;

-- What workers have sent of the output of their runtimes while an attempt runs: at most the newest
-- 64 KiB of each attempt. The artifact of the type LOG replaces it when the attempt ends.
CREATE TABLE attempt_logs (
    attempt_id uuid        NOT NULL REFERENCES job_attempts ON DELETE CASCADE,
    -- The number of bytes that were sent before.
    position   bigint      NOT NULL CHECK (position >= 0),
    text       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (attempt_id, position)
);

-- What the upkeep deletes.
CREATE INDEX attempt_logs_old ON attempt_logs (created_at);
