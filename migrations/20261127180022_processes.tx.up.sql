-- The period for which each periodic pass last ran. All control processes write it, so that no
-- two run a pass for the same period.
CREATE TABLE passes (
    name     text        PRIMARY KEY,
    -- Counted from the epoch, in units of the pass's interval.
    period   bigint      NOT NULL,
    begun_at timestamptz NOT NULL
);

-- When a process of each kind was last alive. Nobody renews a lease while no API process is, and
-- nobody reaps while no control process is. A gap is 5 s or more in which none of a kind wrote.
CREATE TABLE presence (
    kind         text PRIMARY KEY CHECK (kind IN ('api', 'control')),
    seen_at      timestamptz NOT NULL,
    gap_began_at timestamptz,
    gap_ended_at timestamptz,
    CHECK ((gap_began_at IS NULL) = (gap_ended_at IS NULL))
) WITH (fillfactor = 50);

INSERT INTO presence (kind, seen_at) VALUES ('api', clock_timestamp()), ('control', clock_timestamp());

-- Each API process, while it runs. A process that cannot reach PostgreSQL writes nothing here,
-- and the workers that are connected to it cannot renew their leases.
CREATE TABLE api_processes (
    id          uuid PRIMARY KEY,
    seen_at     timestamptz NOT NULL,
    -- When the newest silence of 5 s or more began, of those that are over.
    silent_from timestamptz
) WITH (fillfactor = 50);

-- The running processes of Reelay: for those who look after them. A process deletes its row when it
-- ends; what is silent for an hour is forgotten.
CREATE TABLE replicas (
    id         uuid PRIMARY KEY,
    kind       text        NOT NULL CHECK (kind IN ('api', 'control')),
    version    text        NOT NULL,
    host       text        NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The version and the settings, without secrets, with which a process of each kind started last.
-- A process that starts with others writes an entry of the audit log.
CREATE TABLE process_setups (
    kind  text PRIMARY KEY,
    setup jsonb       NOT NULL,
    at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
