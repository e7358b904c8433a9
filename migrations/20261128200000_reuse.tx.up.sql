-- A job can be answered with the result of an equal job.
SET LOCAL lock_timeout = '5s';

ALTER TABLE jobs
    -- The result of an equal job is enough.
    ADD COLUMN reuse boolean NOT NULL DEFAULT false,
    -- Equal for jobs of which one can have the result of the other (package digest); NULL for others, and once a
    -- file of the result is deleted.
    ADD COLUMN reuse_digest bytea,
    -- What the digest still lacks the contents of: names of files and values, until the job is queued.
    ADD COLUMN reuse_refs jsonb,
    -- The job whose result this one has. It has no foreign key: this job can outlive it.
    ADD COLUMN reused_from uuid;
