-- The dependencies on ended jobs that the ends did not settle, because too many jobs wait for
-- them. Such a job still counts the ended one in its blocked_by. Parts of their own settle them:
-- no end holds thousands of rows, for which other ends would wait.
--
-- There are no foreign keys: an end writes thousands of rows at once. A row of a dependency that
-- is gone, or of a job that does not wait any more, means nothing.
CREATE TABLE unsettled (
    depends_on uuid        NOT NULL,
    job_id     uuid        NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (depends_on, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The rows of a job that begins another run.
CREATE INDEX unsettled_of_job ON unsettled (job_id);

-- The workflows whose cancellation is not complete.
CREATE INDEX workflows_cancelling ON workflows (id) WHERE status = 'RUNNING' AND cancel_requested_at IS NOT NULL;
