-- Objects that were verified in the object store. An INPUT belongs to an account and not to one
-- job: it exists before the jobs that begin from it, and several can. keep_account stands in for
-- a foreign key of account_id.
CREATE TABLE artifacts (
    id           uuid PRIMARY KEY,
    job_id       uuid REFERENCES jobs ON DELETE CASCADE,
    account_id   uuid        NOT NULL,
    attempt_id   uuid REFERENCES job_attempts,
    type         text        NOT NULL CHECK (type IN (
        'INPUT', 'CHECKPOINT', 'PREVIEW', 'FINAL_VIDEO', 'THUMBNAIL', 'SPRITESHEET', 'LOG', 'EVIDENCE')),
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
    -- When the upkeep next checks whether the artifact has expired.
    review_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (type <> 'CHECKPOINT' OR (step IS NOT NULL AND percent IS NOT NULL)),
    CONSTRAINT artifacts_input_check CHECK ((type = 'INPUT') = (job_id IS NULL))
);

-- A job's artifacts.
CREATE INDEX artifacts_of_job ON artifacts (job_id, id);
-- An attempt's artifacts; for the foreign key, when an attempt is deleted.
CREATE INDEX artifacts_of_attempt ON artifacts (attempt_id);
-- What the upkeep reviews next: all artifacts, and inputs alone.
CREATE INDEX artifacts_review ON artifacts (review_at);
CREATE INDEX artifacts_inputs ON artifacts (review_at) WHERE type = 'INPUT';

ALTER TABLE jobs ADD FOREIGN KEY (latest_checkpoint_id) REFERENCES artifacts DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jobs ADD FOREIGN KEY (result_id) REFERENCES artifacts DEFERRABLE INITIALLY DEFERRED;

-- For these foreign keys, when an artifact is deleted.
CREATE INDEX jobs_latest_checkpoint ON jobs (latest_checkpoint_id) WHERE latest_checkpoint_id IS NOT NULL;
CREATE INDEX jobs_result ON jobs (result_id) WHERE result_id IS NOT NULL;

-- Object keys that were issued for one type, size and checksum: to an attempt, or, for an INPUT,
-- to an account and the artifact that it will be.
CREATE TABLE uploads (
    object_key   text PRIMARY KEY,
    job_id       uuid REFERENCES jobs ON DELETE CASCADE,
    attempt_id   uuid REFERENCES job_attempts ON DELETE CASCADE,
    account_id   uuid REFERENCES accounts,
    artifact_id  uuid,
    type         text        NOT NULL,
    content_type text        NOT NULL,
    size_bytes   bigint      NOT NULL CHECK (size_bytes > 0),
    checksum     text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT uploads_input_check CHECK (
        CASE WHEN type = 'INPUT' THEN num_nulls(job_id, attempt_id) = 2 AND num_nonnulls(account_id, artifact_id) = 2
        ELSE num_nonnulls(job_id, attempt_id) = 2 AND num_nulls(account_id, artifact_id) = 2 END)
);

-- For the foreign keys, when a job or an attempt is deleted.
CREATE INDEX uploads_of_job ON uploads (job_id);
CREATE INDEX uploads_of_attempt ON uploads (attempt_id);
-- The uploads that came to nothing, which the upkeep deletes.
CREATE INDEX uploads_by_age ON uploads (created_at);
-- The upload of an input that is being registered.
CREATE UNIQUE INDEX uploads_of_input ON uploads (artifact_id) WHERE type = 'INPUT';
-- The open uploads of an account, whose number is limited.
CREATE INDEX uploads_of_account ON uploads (account_id, created_at) WHERE type = 'INPUT';

-- The inputs of jobs. An input that a job uses cannot be deleted.
CREATE TABLE input_uses (
    job_id      uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    artifact_id uuid NOT NULL REFERENCES artifacts,
    -- How the job's params name the input: its id, or the URL that it was fetched from.
    reference   text NOT NULL,
    PRIMARY KEY (job_id, artifact_id)
);

-- The jobs that use an input.
CREATE INDEX input_uses_of_artifact ON input_uses (artifact_id);

-- Images that BLOCKED jobs wait for. Each counts in its job's blocked_by.
CREATE TABLE input_fetches (
    job_id        uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    account_id    uuid        NOT NULL REFERENCES accounts,
    tries         integer     NOT NULL DEFAULT 0 CHECK (tries >= 0),
    -- Why the newest try failed, as text for people.
    problem       text,
    next_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 70);

-- The fetches that are due.
CREATE INDEX input_fetches_next ON input_fetches (next_at);

-- Objects that no row names any more, until they are deleted from the object store.
CREATE TABLE object_deletions (
    object_key text PRIMARY KEY,
    doomed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries      integer     NOT NULL DEFAULT 0
);

-- The deletions that are due.
CREATE INDEX object_deletions_next ON object_deletions (next_at);

-- The state of the search for objects that no row names: the last key it examined, and until
-- when a process claims it or it rests.
CREATE TABLE orphan_search (
    only_one      boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    after_key     text        NOT NULL DEFAULT '',
    claimed_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

INSERT INTO orphan_search DEFAULT VALUES;
