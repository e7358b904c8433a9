-- What happened, by minute, ten minutes, hour and day of UTC. history has one row for each span
-- that is known. The other two tables have rows for what is not 0 in it, so that their size
-- depends on the number of models and pools and not on the number of jobs.
CREATE TABLE history (
    -- The length of the span, and its begin.
    seconds       integer     NOT NULL CHECK (seconds IN (60, 600, 3600, 86400)),
    at            timestamptz NOT NULL,
    -- How many minutes of it are known, and in how many of them gauges were read. Gauges are sums
    -- over these readings.
    minutes       integer     NOT NULL CHECK (minutes > 0),
    samples       integer     NOT NULL CHECK (samples BETWEEN 0 AND minutes),
    scheduled     float8      NOT NULL DEFAULT 0,
    blocked       float8      NOT NULL DEFAULT 0,
    -- Open ones that operators must act on.
    dead_letters  float8      NOT NULL DEFAULT 0,
    -- The time to empty all queues, and how many readings knew it.
    drain_seconds float8      NOT NULL DEFAULT 0,
    drain_samples integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (seconds, at)
);

CREATE TABLE history_jobs (
    seconds         integer     NOT NULL,
    at              timestamptz NOT NULL,
    lane            text        NOT NULL,
    model           text        NOT NULL,
    submitted       integer     NOT NULL DEFAULT 0,
    -- First leases, and ends, of runs.
    started         integer     NOT NULL DEFAULT 0,
    completed       integer     NOT NULL DEFAULT 0,
    failed          integer     NOT NULL DEFAULT 0,
    cancelled       integer     NOT NULL DEFAULT 0,
    -- The failed runs by failure class.
    failures        jsonb       NOT NULL DEFAULT '{}',
    -- Histograms of seconds, see models/histogram.go: from queued to the first lease, from a lease
    -- to its start, and all leases of a completed run.
    waits           jsonb       NOT NULL DEFAULT '{}',
    pickups         jsonb       NOT NULL DEFAULT '{}',
    renders         jsonb       NOT NULL DEFAULT '{}',
    -- Gauges.
    queued          float8      NOT NULL DEFAULT 0,
    queued_max      float8      NOT NULL DEFAULT 0,
    running         float8      NOT NULL DEFAULT 0,
    oldest_wait_max float8      NOT NULL DEFAULT 0,
    -- How many of the queued jobs could not start, since their queue was closed.
    closed          float8      NOT NULL DEFAULT 0,
    PRIMARY KEY (seconds, at, lane, model),
    FOREIGN KEY (seconds, at) REFERENCES history ON DELETE CASCADE
);

CREATE TABLE history_pools (
    seconds            integer     NOT NULL,
    at                 timestamptz NOT NULL,
    -- The pool's name, or empty for workers without a pool.
    pool               text        NOT NULL,
    region             text        NOT NULL,
    gpu_type           text        NOT NULL,
    -- Attempts that ended: all, preempted or handed back by no operator's doing, and reaped.
    attempts           integer     NOT NULL DEFAULT 0,
    preempted          integer     NOT NULL DEFAULT 0,
    expired            integer     NOT NULL DEFAULT 0,
    gpu_seconds        float8      NOT NULL DEFAULT 0,
    wasted_gpu_seconds float8      NOT NULL DEFAULT 0,
    wasted_usd         float8      NOT NULL DEFAULT 0,
    -- Histograms of seconds: how long checkpoints stopped their render, and from the loss of a
    -- worker until the job ran again.
    checkpoints        jsonb       NOT NULL DEFAULT '{}',
    recoveries         jsonb       NOT NULL DEFAULT '{}',
    -- Gauges.
    booting            float8      NOT NULL DEFAULT 0,
    idle               float8      NOT NULL DEFAULT 0,
    busy               float8      NOT NULL DEFAULT 0,
    draining           float8      NOT NULL DEFAULT 0,
    -- GPUs that report how busy they are, and the sum of what they report (each 0 to 1).
    gpus               float8      NOT NULL DEFAULT 0,
    gpus_busy          float8      NOT NULL DEFAULT 0,
    -- What the workers of these readings cost, in US dollars.
    cost_usd           float8      NOT NULL DEFAULT 0,
    -- The attempts whose worker an operator preempted, beside those that were preempted by nobody's doing.
    by_operators       integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (seconds, at, pool, region, gpu_type),
    FOREIGN KEY (seconds, at) REFERENCES history ON DELETE CASCADE
);

-- How many submits failed through no fault of their callers, by the minute: only minutes with any
-- have a row, for a day. A refused submit leaves nothing else behind.
CREATE TABLE submit_refusals (
    at      timestamptz PRIMARY KEY,
    refused integer     NOT NULL CHECK (refused > 0)
);
