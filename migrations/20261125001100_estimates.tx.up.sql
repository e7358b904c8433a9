-- How long renders take, as a multiple of the catalogue's estimate: moving averages over the
-- newest jobs of the same kind. All attempts of a job count together.
CREATE TABLE render_times (
    model            text        NOT NULL,
    resolution       text        NOT NULL,
    -- The video's length, rounded up. 0 for models without one.
    duration_seconds integer     NOT NULL,
    gpu_type         text        NOT NULL,
    ratio            float8      NOT NULL CHECK (ratio > 0),
    -- The variance of the ratio.
    variance         float8      NOT NULL CHECK (variance >= 0),
    samples          bigint      NOT NULL CHECK (samples > 0),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (model, resolution, duration_seconds, gpu_type)
) WITH (fillfactor = 50);

-- How many jobs per second an account submits: a moving average as of the newest job. It decays
-- from then on.
CREATE TABLE arrivals (
    account_id      uuid        NOT NULL REFERENCES accounts ON DELETE CASCADE,
    tier            text        NOT NULL REFERENCES lanes,
    model           text        NOT NULL,
    jobs_per_second float8      NOT NULL CHECK (jobs_per_second >= 0),
    -- The catalogue's estimate for one job.
    gpu_seconds     float8      NOT NULL,
    until           timestamptz NOT NULL,
    PRIMARY KEY (account_id, tier, model)
) WITH (fillfactor = 50);

-- The time up to which render_times and arrivals include all jobs.
CREATE TABLE learning (
    only_one boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    until    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

INSERT INTO learning DEFAULT VALUES;
