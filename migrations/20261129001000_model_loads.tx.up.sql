-- How long the workers of a pool, or those of a GPU type without a pool, took to have a model in
-- memory. The pass that learns render times writes it.
SET LOCAL lock_timeout = '5s';

CREATE TABLE model_loads (
    pool_id uuid REFERENCES pools ON DELETE CASCADE,
    gpu_type text NOT NULL,
    model    text NOT NULL,
    -- The newest ones, newest first: the load, and the download of the weights before it, which is
    -- 0 if they were on the machine.
    load_seconds  float8[] NOT NULL,
    fetch_seconds float8[] NOT NULL,
    loads         bigint   NOT NULL CHECK (loads > 0),
    UNIQUE NULLS NOT DISTINCT (pool_id, gpu_type, model)
) WITH (fillfactor = 50);
