SET LOCAL lock_timeout = '5s';

-- When each kind of process was last there. Nobody can renew a lease while the
-- API is away, and nobody reaps while control is: a gap is 5 s or more in which
-- none of a kind has written.
CREATE TABLE presence (
    kind         text PRIMARY KEY CHECK (kind IN ('api', 'control')),
    seen_at      timestamptz NOT NULL,
    gap_began_at timestamptz,
    gap_ended_at timestamptz,
    CHECK ((gap_began_at IS NULL) = (gap_ended_at IS NULL))
) WITH (fillfactor = 50);

INSERT INTO presence (kind, seen_at) VALUES ('api', clock_timestamp()), ('control', clock_timestamp());

ALTER TABLE jobs
    -- Fails unless it was started by then.
    ADD COLUMN expires_at      timestamptz,
    -- The client's narrowing of the backoff: backoff, initialDelaySeconds, maxDelaySeconds.
    ADD COLUMN retry_policy    jsonb,
    ADD COLUMN region          text,
    ADD COLUMN require_region  boolean NOT NULL DEFAULT false,
    -- Jobs that it depends on and that are not COMPLETED yet.
    ADD COLUMN blocked_by      integer NOT NULL DEFAULT 0,
    -- Crashes and losses without notice of this run since its newest checkpoint.
    ADD COLUMN crashes         integer NOT NULL DEFAULT 0,
    -- How many GPU types of its model's list it has outgrown.
    ADD COLUMN gpu_rank        integer NOT NULL DEFAULT 0,
    -- The worker that failed it last, and until when another one is preferred.
    ADD COLUMN avoid_worker_id uuid,
    ADD COLUMN avoid_until     timestamptz,
    ADD COLUMN deleted_at      timestamptz;

ALTER TABLE jobs
    ADD CONSTRAINT jobs_blocked_by_check CHECK (blocked_by >= 0 AND (blocked_by = 0 OR status IN ('BLOCKED', 'FAILED', 'CANCELLED'))) NOT VALID,
    ADD CONSTRAINT jobs_crashes_check CHECK (crashes >= 0) NOT VALID,
    ADD CONSTRAINT jobs_gpu_rank_check CHECK (gpu_rank >= 0) NOT VALID,
    ADD CONSTRAINT jobs_deleted_check CHECK (deleted_at IS NULL OR status IN ('COMPLETED', 'FAILED', 'CANCELLED')) NOT VALID;

-- Both ends are jobs of one account. A job is BLOCKED while blocked_by counts
-- parents, and until its run_at.
CREATE TABLE job_dependencies (
    job_id     uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    depends_on uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    PRIMARY KEY (job_id, depends_on),
    CHECK (job_id <> depends_on)
);

CREATE INDEX job_dependencies_on ON job_dependencies (depends_on, job_id);

-- What a run was, kept when a retry or a redrive opens the next.
CREATE TABLE job_runs (
    job_id         uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    run            integer     NOT NULL CHECK (run >= 1),
    status         text        NOT NULL CHECK (status IN ('FAILED', 'CANCELLED')),
    params         jsonb       NOT NULL,
    failure_class  text,
    failure_reason text,
    attempt_no     integer     NOT NULL,
    completed_at   timestamptz NOT NULL,
    PRIMARY KEY (job_id, run)
);

-- A prompt may be edited for a later run: a run's prompt is the newest of the
-- runs up to it.
ALTER TABLE job_inputs ADD COLUMN run integer NOT NULL DEFAULT 1;
ALTER TABLE job_inputs DROP CONSTRAINT job_inputs_pkey, ADD PRIMARY KEY (job_id, run);

ALTER TABLE job_attempts
    ADD COLUMN error_detail text,
    -- It counted against the job's attempts.
    ADD COLUMN counted      boolean NOT NULL DEFAULT false;

ALTER TABLE workers ADD COLUMN lost_at timestamptz;

CREATE TABLE dead_letters (
    id            uuid PRIMARY KEY,
    job_id        uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    run           integer     NOT NULL,
    model         text        NOT NULL,
    provider      text,
    failure_class text        NOT NULL,
    reason        text        NOT NULL,
    -- Same cause, same fingerprint.
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

CREATE INDEX dead_letters_open ON dead_letters (fingerprint, id) WHERE resolved_at IS NULL;

-- Objects that no row names any more, until they are gone from the store.
CREATE TABLE object_deletions (
    object_key text PRIMARY KEY,
    doomed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries      integer     NOT NULL DEFAULT 0
);

CREATE INDEX object_deletions_next ON object_deletions (next_at);
