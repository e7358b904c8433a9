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
