SET LOCAL lock_timeout = '5s';

-- The version and the settings, without secrets, with which a process of each kind started last.
-- A process that starts with others writes an entry of the audit log.
CREATE TABLE process_setups (
    kind text PRIMARY KEY,
    setup jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
