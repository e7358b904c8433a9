-- Halts: an operator stops all schedules, or all leases, at once. A row is a halt; lifting it
-- deletes the row.
SET LOCAL lock_timeout = '5s';
CREATE TABLE halts (
    what      text PRIMARY KEY CHECK (what IN ('SCHEDULES', 'LEASES')),
    halted_by text        NOT NULL,
    reason    text        NOT NULL CHECK (reason <> ''),
    since     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The lanes, and models in them (model '': the whole lane), whose jobs no worker gets: because an
-- operator paused them, or halted all leases. Whatever gives jobs to workers reads it.
CREATE VIEW closed_queues AS
    SELECT lane, model FROM queue_pauses WHERE paused
    UNION ALL
    SELECT l.lane, '' FROM lanes l JOIN halts h ON h.what = 'LEASES';
