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

-- How many jobs were submitted in each hour, for the forecast of arrivals.
CREATE TABLE arrival_hours (
    hour        timestamptz NOT NULL,
    model       text        NOT NULL,
    tier        text        NOT NULL,
    jobs        float8      NOT NULL,
    -- The catalogue's estimate for all of them.
    gpu_seconds float8      NOT NULL,
    PRIMARY KEY (hour, model, tier)
);

-- How long the workers of a pool were busy, and how many of their attempts were lost or
-- preempted. Both fade, as of until.
CREATE TABLE pool_losses (
    pool_id    uuid PRIMARY KEY REFERENCES pools ON DELETE CASCADE,
    losses     float8      NOT NULL CHECK (losses >= 0),
    busy_hours float8      NOT NULL CHECK (busy_hours >= 0),
    until      timestamptz NOT NULL
) WITH (fillfactor = 50);

-- How long the newest checkpoints of a model took to save on the workers of a pool.
CREATE TABLE checkpoint_saves (
    pool_id uuid     NOT NULL REFERENCES pools ON DELETE CASCADE,
    model   text     NOT NULL,
    -- The newest ones, newest first.
    seconds float8[] NOT NULL,
    saves   bigint   NOT NULL CHECK (saves > 0),
    PRIMARY KEY (pool_id, model)
) WITH (fillfactor = 50);

-- How long the workers of a pool, or those of a GPU type without a pool, took to have a model in
-- memory. The pass that learns render times writes it.
CREATE TABLE model_loads (
    pool_id       uuid REFERENCES pools ON DELETE CASCADE,
    gpu_type      text     NOT NULL,
    model         text     NOT NULL,
    -- The newest ones, newest first: the load, and the download of the weights before it, which is
    -- 0 if they were on the machine.
    load_seconds  float8[] NOT NULL,
    fetch_seconds float8[] NOT NULL,
    loads         bigint   NOT NULL CHECK (loads > 0),
    UNIQUE NULLS NOT DISTINCT (pool_id, gpu_type, model)
) WITH (fillfactor = 50);

-- The time up to which render_times and arrivals include all jobs.
CREATE TABLE learning (
    only_one boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    until    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

INSERT INTO learning DEFAULT VALUES;
