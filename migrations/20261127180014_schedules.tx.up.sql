-- Schedules: jobs or workflows that are submitted again and again, at times.
CREATE TABLE schedules (
    id                      uuid PRIMARY KEY,
    account_id              uuid        NOT NULL REFERENCES accounts,
    -- The jobs are submitted as this key.
    created_by              uuid        NOT NULL REFERENCES api_keys,
    name                    text        NOT NULL,

    -- When it fires.
    cron                    text,
    every_seconds           integer     CHECK (every_seconds >= 1),
    timezone                text        NOT NULL,
    dst_gap                 text        NOT NULL CHECK (dst_gap IN ('SHIFT', 'SKIP')),
    dst_overlap             text        NOT NULL CHECK (dst_overlap IN ('FIRST', 'LAST', 'BOTH')),
    jitter_seconds          integer     NOT NULL CHECK (jitter_seconds >= 0),
    start_at                timestamptz,
    end_at                  timestamptz CHECK (end_at > start_at),
    catch_up                text        NOT NULL CHECK (catch_up IN ('SKIP', 'COALESCE', 'ALL')),
    catch_up_window_seconds integer     NOT NULL CHECK (catch_up_window_seconds >= 0),
    overlap                 text        NOT NULL CHECK (overlap IN ('ALLOW', 'SKIP', 'CANCEL_PREVIOUS')),

    -- What it submits: the request, encrypted as prompts are, and what lists show of it.
    ciphertext              bytea       NOT NULL,
    wrapped_key             bytea       NOT NULL,
    model                   text        NOT NULL,
    -- The lane, by which schedules that are due at once follow each other.
    tier                    text        NOT NULL CHECK (tier IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),

    paused_at               timestamptz,
    paused_by               text,
    pause_reason            text,
    -- All slots until then are decided: each has a row in schedule_slots, or was left out.
    decided_until           timestamptz NOT NULL,
    -- The next slot, and when it fires: the jitter later. NULL: it is paused, or has ended.
    next_slot               timestamptz,
    next_fire_at            timestamptz,
    last_fire_at            timestamptz,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What lists show of a workflow: its name, and how many jobs it has. Then the schedule has no model.
    workflow                text,
    workflow_jobs           integer     CHECK (workflow_jobs >= 1),
    -- How many slots it has in its busiest hour. Control corrects the default when a schedule fires next.
    slots_an_hour           integer     NOT NULL DEFAULT 1 CHECK (slots_an_hour >= 1),
    -- Since when its slots are not decided, since too many of its account wait.
    held_at                 timestamptz,
    -- The idempotency key with which the schedule was made, and the digest of that request.
    idempotency_key         text,
    request_digest          bytea,
    -- The models of the jobs that its workflow has, since its request is sealed: a model that
    -- schedules submit is not removed unnoticed.
    models                  text[],
    CHECK ((cron IS NULL) <> (every_seconds IS NULL)),
    CHECK ((next_slot IS NULL) = (next_fire_at IS NULL)),
    CHECK (paused_at IS NULL OR next_fire_at IS NULL),
    CONSTRAINT schedules_submits CHECK (
        (model = '') = (workflow IS NOT NULL) AND (workflow IS NULL) = (workflow_jobs IS NULL))
);
CREATE UNIQUE INDEX schedules_name ON schedules (account_id, name);
CREATE INDEX schedules_by_name ON schedules (name, id);
CREATE INDEX schedules_due ON schedules (next_fire_at) WHERE next_fire_at IS NOT NULL;
CREATE UNIQUE INDEX schedules_key ON schedules (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX schedules_created_by ON schedules (created_by);

-- The slots of schedules. The row is the guarantee that a slot fires once: whoever decides on a
-- slot inserts it, and whoever fires it submits a job whose idempotency key is the slot.
CREATE TABLE schedule_slots (
    schedule_id uuid        NOT NULL REFERENCES schedules ON DELETE CASCADE,
    slot        timestamptz NOT NULL,
    cause       text        NOT NULL CHECK (cause IN ('CRON', 'CATCH_UP', 'TRIGGER', 'BACKFILL')),
    state       text        NOT NULL CHECK (state IN ('PENDING', 'FIRED', 'SKIPPED', 'REFUSED')),
    -- Why it was skipped or refused.
    reason      text,
    -- When a PENDING slot is due. While a process submits its job, a few seconds later.
    due_at      timestamptz,
    tier        text        NOT NULL CHECK (tier IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    tries       integer     NOT NULL DEFAULT 0 CHECK (tries >= 0),
    -- What it submitted: a job or a workflow (workflow_id). Retention deletes both without asking slots.
    job_id      uuid,
    decided_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    workflow_id uuid,
    -- Whose slot it is. Only slots that wait need it, and they are few.
    account_id  uuid,
    PRIMARY KEY (schedule_id, slot),
    CHECK ((state = 'PENDING') = (due_at IS NOT NULL)),
    CHECK ((state = 'PENDING') = (ended_at IS NULL)),
    CONSTRAINT schedule_slots_fired CHECK (num_nonnulls(job_id, workflow_id) = (state = 'FIRED')::integer),
    CONSTRAINT schedule_slots_account CHECK (due_at IS NULL OR account_id IS NOT NULL)
);
-- The accounts whose slots are due, which share out what fires, and the slot that is due first.
CREATE INDEX schedule_slots_flows ON schedule_slots (tier, account_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_slots_first ON schedule_slots (due_at) WHERE due_at IS NOT NULL;
-- The slots of a backfill.
CREATE INDEX schedule_slots_backfills ON schedule_slots (schedule_id, ended_at) WHERE cause = 'BACKFILL';
-- The jobs and workflows of a schedule, the newest first, and the schedule of a job or workflow.
CREATE INDEX schedule_slots_job ON schedule_slots (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX schedule_slots_jobs ON schedule_slots (schedule_id, job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX schedule_slots_workflows ON schedule_slots (schedule_id, workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX schedule_slots_workflow ON schedule_slots (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX schedule_slots_ended ON schedule_slots (ended_at) WHERE ended_at IS NOT NULL;
