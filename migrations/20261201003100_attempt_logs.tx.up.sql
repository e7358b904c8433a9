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
