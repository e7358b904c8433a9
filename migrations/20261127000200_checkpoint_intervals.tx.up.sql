-- What the interval between checkpoints is computed from. Both tables have one row per pool, or
-- per pool and model, and are written by the pass that learns render times.

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
