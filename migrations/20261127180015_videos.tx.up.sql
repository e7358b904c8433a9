-- What the Videos API keeps of a job besides the job itself. A job that was submitted in
-- another way has a row only once its deletion was requested.
CREATE TABLE videos (
    job_id          uuid PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    -- As the client named them.
    model           text,
    size            text,
    seconds         text,
    -- The job that this is a remix of. Its row can be deleted.
    remix_of        uuid,
    -- The request's fields, hashed under the caller's secret, which is not stored: it recognises
    -- a repeated request, and nobody can guess the fields from it.
    digest          bytea CHECK (length(digest) = 32),
    -- The highest retry count that was answered with this job.
    retries         integer     NOT NULL DEFAULT 0 CHECK (retries >= 0),
    -- A repeated request made the job, and the first request has not arrived yet.
    awaits_first    boolean     NOT NULL DEFAULT false,
    -- From then on the API does not show the job. Its contents are deleted after its end.
    delete_asked_at timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The job of an earlier request with the same digest.
CREATE INDEX videos_repeated ON videos (digest, created_at) WHERE digest IS NOT NULL;
-- The jobs whose contents are to be deleted.
CREATE INDEX videos_to_delete ON videos (delete_asked_at) WHERE delete_asked_at IS NOT NULL;
