SET LOCAL lock_timeout = '5s';

-- An INPUT is an account's, not one job's: it comes before the jobs that begin
-- from it, and several may.
ALTER TABLE artifacts ALTER COLUMN job_id DROP NOT NULL;
ALTER TABLE artifacts ADD CONSTRAINT artifacts_input_check CHECK ((type = 'INPUT') = (job_id IS NULL)) NOT VALID;

-- The key of an INPUT is issued to an account, for the artifact that it will be.
ALTER TABLE uploads
    ALTER COLUMN job_id DROP NOT NULL,
    ALTER COLUMN attempt_id DROP NOT NULL,
    ADD COLUMN account_id  uuid REFERENCES accounts,
    ADD COLUMN artifact_id uuid;
ALTER TABLE uploads ADD CONSTRAINT uploads_input_check CHECK (
    CASE WHEN type = 'INPUT' THEN num_nulls(job_id, attempt_id) = 2 AND num_nonnulls(account_id, artifact_id) = 2
    ELSE num_nonnulls(job_id, attempt_id) = 2 AND num_nulls(account_id, artifact_id) = 2 END) NOT VALID;

-- Which jobs begin from which inputs. An input that a job uses cannot go.
CREATE TABLE input_uses (
    job_id      uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    artifact_id uuid NOT NULL REFERENCES artifacts,
    -- As the job's params name it: the artifact's id, or the URL that it is from.
    reference   text NOT NULL,
    PRIMARY KEY (job_id, artifact_id)
);

CREATE INDEX input_uses_of_artifact ON input_uses (artifact_id);

-- Images that are still to be fetched for BLOCKED jobs, each counted in its job's
-- blocked_by.
CREATE TABLE input_fetches (
    job_id        uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    account_id    uuid        NOT NULL REFERENCES accounts,
    tries         integer     NOT NULL DEFAULT 0 CHECK (tries >= 0),
    -- Why the newest try failed, for people.
    problem       text,
    next_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 70);

CREATE INDEX input_fetches_next ON input_fetches (next_at);
