SET LOCAL lock_timeout = '5s';

-- What was predicted when the job was submitted, and what came of it: how long
-- it was queued before a worker was first given it, in this run.
ALTER TABLE jobs
    ADD COLUMN predicted_wait_seconds float8,
    ADD COLUMN waited_seconds         float8;

-- How long renders take, as a multiple of what the catalogue reckons: moving
-- averages over the newest jobs that are alike. A job's tries count together.
CREATE TABLE render_times (
    model            text        NOT NULL,
    resolution       text        NOT NULL,
    -- Of the film, rounded up; 0 where a model has none.
    duration_seconds integer     NOT NULL,
    gpu_type         text        NOT NULL,
    ratio            float8      NOT NULL CHECK (ratio > 0),
    -- The variance of the ratio.
    variance         float8      NOT NULL CHECK (variance >= 0),
    samples          bigint      NOT NULL CHECK (samples > 0),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (model, resolution, duration_seconds, gpu_type)
) WITH (fillfactor = 50);

-- How many jobs a second accounts submit: a moving average, as it was when a job
-- came last. It fades since.
CREATE TABLE arrivals (
    account_id      uuid        NOT NULL REFERENCES accounts ON DELETE CASCADE,
    tier            text        NOT NULL REFERENCES lanes,
    model           text        NOT NULL,
    jobs_per_second float8      NOT NULL CHECK (jobs_per_second >= 0),
    -- What the catalogue reckons for one of them.
    gpu_seconds     float8      NOT NULL,
    until           timestamptz NOT NULL,
    PRIMARY KEY (account_id, tier, model)
) WITH (fillfactor = 50);

-- Until when jobs have been taken into both.
CREATE TABLE learning (
    only_one boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    until    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

INSERT INTO learning DEFAULT VALUES;
