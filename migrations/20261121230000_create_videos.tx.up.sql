SET LOCAL lock_timeout = '5s';

-- What the Videos API keeps of a job beside the job itself. A job that came
-- another way gets a row only when it is to be deleted.
CREATE TABLE videos (
    job_id          uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    -- As the client named them.
    model           text,
    size            text,
    seconds         text,
    -- The job that it is a remix of, whose row may be gone by now.
    remix_of        uuid,
    -- The request's fields, hashed under the caller's secret, which is not kept:
    -- by this a repeated request is known, and nothing can be guessed from it.
    digest          bytea CHECK (length(digest) = 32),
    -- The highest retry count that was answered with this job.
    retries         integer     NOT NULL DEFAULT 0 CHECK (retries >= 0),
    -- A repeated request made it, and the first one did not come yet.
    awaits_first    boolean     NOT NULL DEFAULT false,
    -- Nobody is shown it from then on; its contents go once it is over.
    delete_asked_at timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX videos_repeated ON videos (digest, created_at) WHERE digest IS NOT NULL;
CREATE INDEX videos_to_delete ON videos (delete_asked_at) WHERE delete_asked_at IS NOT NULL;
