-- The jobs whose result videos other jobs start from. A source keeps its result until the jobs
-- that use it have ended. The uploaded inputs of a job are in input_uses.
SET LOCAL lock_timeout = '5s';

CREATE TABLE job_sources (
    job_id    uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    source_id uuid NOT NULL REFERENCES jobs ON DELETE CASCADE,
    PRIMARY KEY (job_id, source_id),
    CHECK (job_id <> source_id)
);

-- The jobs that use a job's result.
CREATE INDEX job_sources_of ON job_sources (source_id);
