-- Both jobs belong to one account. A job is BLOCKED while its blocked_by is not 0, and then until its run_at.
CREATE TABLE job_dependencies (
    job_id         uuid     NOT NULL REFERENCES jobs ON DELETE CASCADE,
    depends_on     uuid     NOT NULL REFERENCES jobs ON DELETE CASCADE,
    -- What happens to job_id if depends_on ends without success, and how often that job was retried
    -- for it.
    on_failure     text     NOT NULL DEFAULT 'CASCADE',
    parent_retries smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, depends_on),
    CHECK (job_id <> depends_on)
);

-- The jobs that depend on a job that ends.
CREATE INDEX job_dependencies_on ON job_dependencies (depends_on, job_id);

-- Failed jobs that are to be retried because a dependent demands it. Its dependents wait until then.
CREATE TABLE parent_retries (
    job_id uuid    PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    run    integer NOT NULL
);

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
-- How long the oldest dependency has waited to be settled. The table is empty most of the time, and rows
-- are added at the end of the index.
CREATE INDEX unsettled_since ON unsettled (since);

-- The jobs whose result videos other jobs start from. A source keeps its result until the jobs
-- that use it have ended. The uploaded inputs of a job are in input_uses.
CREATE TABLE job_sources (
    job_id    uuid   NOT NULL REFERENCES jobs ON DELETE CASCADE,
    source_id uuid   NOT NULL REFERENCES jobs ON DELETE CASCADE,
    -- What the job takes from the source, as its references say it after the dot: video, firstFrame,
    -- lastFrame, thumbnail, output, and output with a path. A value is in the list as often as the
    -- texts of the job contain it.
    takes     text[] NOT NULL DEFAULT '{video}',
    PRIMARY KEY (job_id, source_id),
    CHECK (job_id <> source_id)
);

-- The jobs that use a job's result.
CREATE INDEX job_sources_of ON job_sources (source_id);

-- output_text returns the value of an output that take names: a string as it is, anything else
-- as JSON. It returns NULL if there is no such value.
CREATE FUNCTION output_text(output jsonb, take text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value IS NOT NULL THEN coalesce(value #>> '{}', 'null') END
    FROM (SELECT output #> string_to_array(substr(take, 8), '.') AS value WHERE take = 'output' OR take LIKE 'output.%') v
$$;
