CREATE SEQUENCE job_tickets;

-- Autovacuum starts after a fixed number of dead rows. By default it waits for a fifth of the
-- table: of ten million jobs of history, two million, and claims read the newest ones first.
CREATE TABLE jobs (
    id                     uuid PRIMARY KEY,
    account_id             uuid        NOT NULL REFERENCES accounts,
    created_by             uuid REFERENCES api_keys,
    type                   text        NOT NULL,
    model                  text        NOT NULL,
    status                 text        NOT NULL CHECK (status IN (
        'SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING', 'COMPLETED', 'FAILED', 'CANCELLED')),
    run                    integer     NOT NULL DEFAULT 1 CHECK (run >= 1),

    -- The request.
    params                 jsonb       NOT NULL,
    metadata               jsonb,
    user_id                text,
    idempotency_key        text,
    request_digest         bytea,
    max_attempts           integer     NOT NULL CHECK (max_attempts BETWEEN 1 AND 20),
    -- The client's narrowing of the backoff: backoff, initialDelaySeconds, maxDelaySeconds.
    retry_policy           jsonb,
    timeout_seconds        integer     NOT NULL CHECK (timeout_seconds >= 1),
    run_at                 timestamptz,
    -- The job fails if no worker started it by then.
    expires_at             timestamptz,
    region                 text,
    require_region         boolean     NOT NULL DEFAULT false,
    callback_url           text,

    -- The order.
    tier                   text        NOT NULL CHECK (tier IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    lane                   text        NOT NULL CHECK (lane IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    priority               integer     NOT NULL DEFAULT 0 CHECK (priority BETWEEN -100 AND 100),
    requeued               boolean     NOT NULL DEFAULT false,
    -- The age, as a number that only rises. It stays below 2^42.
    ticket                 bigint      NOT NULL DEFAULT nextval('job_tickets'),
    -- The order among the account's jobs of a lane, lowest first: requeued jobs, then by
    -- priority, then by age. It stays below 2^53, so that a score in Redis holds it exactly.
    queue_order            bigint      NOT NULL GENERATED ALWAYS AS (
        ((CASE WHEN requeued THEN 0 ELSE 1 END)::bigint << 50) | ((100 - priority)::bigint << 42) | ticket) STORED,
    -- The jobs that this job depends on and that are not COMPLETED, and images to fetch.
    blocked_by             integer     NOT NULL DEFAULT 0,
    -- How many GPU types of its model's list the job has outgrown.
    gpu_rank               integer     NOT NULL DEFAULT 0 CHECK (gpu_rank >= 0),
    -- The worker on which the job failed last. Until avoid_until another worker is preferred.
    avoid_worker_id        uuid,
    avoid_until            timestamptz,

    -- The run. job_attempts and artifacts add the foreign keys of the ids here.
    attempt_no             integer     NOT NULL DEFAULT 0,
    -- Failures of this run that count against max_attempts.
    failures               integer     NOT NULL DEFAULT 0,
    -- Crashes and losses without notice of this run since its newest checkpoint.
    crashes                integer     NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    -- The seq of the newest row in job_events.
    event_seq              integer     NOT NULL DEFAULT 0,
    current_attempt_id     uuid,
    latest_checkpoint_id   uuid,
    result_id              uuid,
    output                 jsonb,
    failure_class          text,
    failure_reason         text,
    wasted_gpu_seconds     float8      NOT NULL DEFAULT 0,
    cancel_by              text,
    cancel_reason          text,
    cancel_requested_at    timestamptz,
    cancel_delivered_at    timestamptz,
    cancel_stopped_at      timestamptz,

    -- The progress.
    percent                float8      NOT NULL DEFAULT 0 CHECK (percent BETWEEN 0 AND 100),
    phase                  text        NOT NULL DEFAULT 'WAITING',
    progress_message       text,
    step                   integer,
    total_steps            integer,
    frame                  integer,
    total_frames           integer,
    eta_seconds            float8,
    progress_at            timestamptz,
    -- PROGRESS events are thinned out: the newest one was written at this time and percentage.
    progress_event_at      timestamptz,
    progress_event_percent float8,

    -- The forecast at submit, in seconds: until the first lease, and until the job is complete.
    estimated_gpu_seconds  float8      NOT NULL CHECK (estimated_gpu_seconds > 0),
    predicted_wait_seconds float8,
    predicted_seconds      float8,
    -- How long this run was queued before its first lease.
    waited_seconds         float8,
    -- How long this run was QUEUED and how long workers held it, summed over all its waits
    -- and attempts, without the period that has not ended.
    queued_seconds         float8      DEFAULT 0,
    leased_seconds         float8      DEFAULT 0,

    created_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    queued_at              timestamptz,
    -- When the newest lease began.
    leased_at              timestamptz,
    started_at             timestamptz,
    completed_at           timestamptz,
    -- When the prompt and the artifacts were deleted.
    deleted_at             timestamptz,
    -- The version of the model that the job was validated with, and the alias that the client named
    -- instead of the model.
    model_version          integer     NOT NULL DEFAULT 1,
    alias                  text,
    -- The newest preview of the job's run.
    preview_id             uuid,

    -- A draft ends after some steps, with a preview and a checkpoint instead of a video. A later job
    -- continues from the checkpoint, which then belongs to that job. draft_steps is the step after which it ends,
    -- NULL for other jobs.
    draft_steps            integer,
    -- Until when a COMPLETED draft's preview and checkpoint are kept.
    kept_until             timestamptz,
    -- The drafts of one request with different seeds have the same value.
    takes_id               uuid,
    -- The draft that the job continues.
    continues              uuid REFERENCES jobs ON DELETE SET NULL,

    -- What the newest attempt's runtime stored so that a later attempt can adopt work that goes on
    -- outside the worker. It is cleared when the job's run ends.
    handle                 text,
    -- The job is never started twice in one run.
    at_most_once           boolean     NOT NULL DEFAULT false,

    -- The job's limits: losses of spot workers, a deadline, and a price. needs is what they
    -- require of a worker now (models.Needs), and slack_until when a queued job with a deadline
    -- is looked at again.
    max_preemptions        integer,
    finish_by              timestamptz,
    max_price_per_hour     double precision,
    preemptions            integer     NOT NULL DEFAULT 0,
    needs                  text        NOT NULL DEFAULT '',
    slack_until            timestamptz,

    -- The W3C traceparent under which the job was submitted: its attempts and webhooks add spans to
    -- that trace. NULL without one.
    traceparent            text CHECK (length(traceparent) <= 64),
    -- The workflow that submitted the job. It has no foreign key: the job can outlive it.
    workflow_id            uuid,

    -- Where the time of a job's run went, apart from its queue and its workers: the part of
    -- queued_seconds in which the queue was closed, the pauses before retries, and the time before it was
    -- due or while other jobs blocked it. delayed_at is when the last one of the latter two began.
    paused_seconds         float8      NOT NULL DEFAULT 0,
    backoff_seconds        float8      NOT NULL DEFAULT 0,
    delayed_seconds        float8      NOT NULL DEFAULT 0,
    delayed_at             timestamptz,

    CHECK ((status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')) = (current_attempt_id IS NOT NULL)),
    CHECK ((status IN ('COMPLETED', 'FAILED', 'CANCELLED')) = (completed_at IS NOT NULL)),
    CHECK (status <> 'SCHEDULED' OR run_at IS NOT NULL),
    -- A cancelled job does not complete.
    CHECK (status <> 'COMPLETED' OR cancel_requested_at IS NULL),
    CHECK (status <> 'CANCELLED' OR cancel_requested_at IS NOT NULL),
    CHECK (status <> 'FAILED' OR failure_class IS NOT NULL),
    CHECK ((idempotency_key IS NULL) = (request_digest IS NULL)),
    CONSTRAINT jobs_blocked_by_check CHECK (blocked_by >= 0 AND (blocked_by = 0 OR status IN ('BLOCKED', 'FAILED', 'CANCELLED'))),
    CONSTRAINT jobs_deleted_check CHECK (deleted_at IS NULL OR status IN ('COMPLETED', 'FAILED', 'CANCELLED')),
    CONSTRAINT jobs_draft_check CHECK (
        CASE WHEN draft_steps IS NULL THEN kept_until IS NULL AND takes_id IS NULL
        ELSE draft_steps >= 1 AND num_nonnulls(result_id, continues) = 0 END)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.01, autovacuum_analyze_threshold = 5000);

-- One job per idempotency key of an account. The key comes first because searches ask for it alone.
CREATE UNIQUE INDEX jobs_by_key ON jobs (idempotency_key, account_id) WHERE idempotency_key IS NOT NULL;

-- An account's jobs of a lane in their order, for lined_up and for the number of jobs ahead.
CREATE INDEX jobs_in_line ON jobs (account_id, lane, (lane <> tier AND lane <> 'CRITICAL'), queue_order)
    WHERE status = 'QUEUED';
-- Queue statistics: which models' jobs wait in a lane, and since when.
CREATE INDEX jobs_by_wait ON jobs (lane, tier, model, queued_at) WHERE status = 'QUEUED';

-- The number of a user's waiting jobs.
CREATE INDEX jobs_waiting_of_user ON jobs (account_id, user_id)
    WHERE user_id IS NOT NULL AND status IN ('SCHEDULED', 'BLOCKED', 'QUEUED');
-- The jobs that expire before they start.
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED') AND expires_at IS NOT NULL;
-- Queue statistics: the jobs that workers hold.
CREATE INDEX jobs_live ON jobs (lane, model) WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING');

-- Lists and counts of jobs (models/job_list.go), of all accounts and of one. No id is NULL:
-- NULLS FIRST is an order that the primary key does not have, so that PostgreSQL does not walk
-- the primary key and filter.
CREATE INDEX jobs_by_kind ON jobs (status, tier, type, model, id NULLS FIRST);
CREATE INDEX jobs_of_account_by_kind ON jobs (account_id, status, tier, type, model, id NULLS FIRST);
CREATE INDEX jobs_by_user ON jobs (user_id, account_id, id NULLS FIRST) WHERE user_id IS NOT NULL;
CREATE INDEX jobs_by_class ON jobs (failure_class, id NULLS FIRST)
    INCLUDE (status, tier, type, model) WHERE failure_class IS NOT NULL;
CREATE INDEX jobs_of_account_by_class ON jobs (account_id, failure_class, id NULLS FIRST)
    INCLUDE (status, tier, type, model) WHERE failure_class IS NOT NULL;
CREATE INDEX jobs_wasteful ON jobs (id NULLS FIRST) WHERE wasted_gpu_seconds > 0;
CREATE INDEX jobs_of_account_wasteful ON jobs (account_id, id NULLS FIRST) WHERE wasted_gpu_seconds > 0;
-- The list of the Videos API.
CREATE INDEX jobs_videos ON jobs (account_id, id) WHERE type = 'video.generate' AND deleted_at IS NULL;

-- A draft is continued by one job.
CREATE UNIQUE INDEX jobs_continuing ON jobs (continues) WHERE continues IS NOT NULL;
-- The drafts of one request.
CREATE INDEX jobs_takes ON jobs (takes_id, id) WHERE takes_id IS NOT NULL;
-- The drafts of a time, for the sum of their GPU seconds. Neither column ever changes.
CREATE INDEX jobs_drafts ON jobs (id, account_id) WHERE draft_steps IS NOT NULL;

-- The ended jobs that the upkeep deletes.
CREATE INDEX jobs_over ON jobs (completed_at) WHERE completed_at IS NOT NULL;
-- The few jobs whose events can be younger than the month of their partition.
CREATE INDEX jobs_long ON jobs (id) WHERE completed_at - created_at > interval '24 hours';

-- PostgreSQL takes the older one of two indexes that cost the same, as all do in a table without
-- statistics: jobs_in_line must come before jobs_next_in_queue.
--
-- The first job of an account's queue, by lane, promotion, model, GPU rank, region and needs, for
-- claims. queued_jobs has these expressions word for word.
CREATE INDEX jobs_next_in_queue ON jobs (
    lane, account_id, (lane <> tier AND lane <> 'CRITICAL'), model, gpu_rank, (coalesce(CASE WHEN require_region THEN region END, '')),
    needs, queue_order) WHERE status = 'QUEUED';
-- What the queued jobs of a lane need, for workers to choose their queues from.
CREATE INDEX jobs_needs ON jobs (lane, needs) WHERE status = 'QUEUED' AND needs <> '';
-- The queued jobs with a deadline, by when they are looked at again.
CREATE INDEX jobs_slack ON jobs (slack_until) WHERE status = 'QUEUED' AND slack_until IS NOT NULL;
-- The delayed jobs of each lane in the order in which they are queued: by time, and those of one
-- time by their order in the account's queue.
CREATE INDEX jobs_due ON jobs (lane, run_at, queue_order)
    WHERE status = 'SCHEDULED' OR status = 'BLOCKED' AND blocked_by = 0;

-- The queued jobs, each with the queue that it is in: its line (the lane, and whether it was promoted
-- into it), model, GPU rank, required region and needs. wish is the region that it prefers or requires.
CREATE VIEW queued_jobs AS
    SELECT id, account_id, lane, (lane <> tier AND lane <> 'CRITICAL') AS promoted, model, gpu_rank,
        coalesce(CASE WHEN require_region THEN region END, '') AS region, needs, coalesce(region, '') AS wish, queue_order,
        estimated_gpu_seconds, queued_at, avoid_until, expires_at, started_at
    FROM jobs WHERE status = 'QUEUED';

-- The queued jobs that a worker may start: those that have not expired.
CREATE VIEW startable_jobs AS
    SELECT * FROM queued_jobs WHERE expires_at IS NULL OR started_at IS NOT NULL OR expires_at > clock_timestamp();

-- Returns the first jobs of these models in an account's queue, and the virtual times at which they start.
CREATE FUNCTION lined_up(account uuid, virtual_time float8, of_lane text, of_promoted boolean, of_models text[], most integer)
RETURNS TABLE (id uuid, start float8, queue_order bigint) LANGUAGE sql STABLE AS $$
    SELECT j.id, virtual_time + (sum(j.estimated_gpu_seconds) OVER (ORDER BY j.queue_order) - j.estimated_gpu_seconds) / a.weight,
        j.queue_order
    FROM (
        SELECT j.id, j.estimated_gpu_seconds, j.queue_order FROM queued_jobs j
        WHERE j.account_id = account AND j.lane = of_lane AND j.promoted = of_promoted AND j.model = ANY (of_models)
        ORDER BY j.queue_order LIMIT most) j
    JOIN accounts a ON a.id = account
$$;

-- The prompt, encrypted under a key of its own. Without wrapped_key nobody can read it.
CREATE TABLE job_inputs (
    job_id      uuid    NOT NULL REFERENCES jobs ON DELETE CASCADE,
    ciphertext  bytea   NOT NULL,
    wrapped_key bytea,
    -- A retry can edit the prompt. The prompt of a run is that of the newest run up to it.
    run         integer NOT NULL DEFAULT 1,
    PRIMARY KEY (job_id, run)
);

-- A run that ended, kept when a retry or a redrive begins the next one.
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

-- The words that a search finds jobs by, besides ids and keys: the plain values of their
-- metadata. They are rows of their own because each transition of a job would write an index
-- on the job's row again.
CREATE TABLE job_words (
    word       text NOT NULL,
    account_id uuid NOT NULL,
    job_id     uuid NOT NULL,
    PRIMARY KEY (word, account_id, job_id)
);

-- Returns the values of metadata that are words. Nobody types more than 200 characters into a search.
CREATE FUNCTION metadata_words(metadata jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS $$
    SELECT DISTINCT value #>> '{}' FROM jsonb_each(metadata)
    WHERE jsonb_typeof(value) IN ('string', 'number', 'boolean') AND length(value #>> '{}') BETWEEN 1 AND 200
$$;

CREATE FUNCTION keep_job_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.metadata IS NOT NULL THEN
        DELETE FROM job_words
        WHERE word IN (SELECT metadata_words(OLD.metadata)) AND account_id = OLD.account_id AND job_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.metadata IS NOT NULL THEN
        INSERT INTO job_words (word, account_id, job_id) SELECT metadata_words(NEW.metadata), NEW.account_id, NEW.id;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER jobs_words_written AFTER INSERT ON jobs
    FOR EACH ROW WHEN (NEW.metadata IS NOT NULL) EXECUTE FUNCTION keep_job_words();
CREATE TRIGGER jobs_words_changed AFTER UPDATE OF metadata ON jobs
    FOR EACH ROW WHEN (OLD.metadata IS DISTINCT FROM NEW.metadata) EXECUTE FUNCTION keep_job_words();
CREATE TRIGGER jobs_words_removed AFTER DELETE ON jobs
    FOR EACH ROW WHEN (OLD.metadata IS NOT NULL) EXECUTE FUNCTION keep_job_words();
