-- The closed queues say whether a halt of all leases closes them, or a pause of their own.
SET LOCAL lock_timeout = '5s';
CREATE OR REPLACE VIEW closed_queues AS
    SELECT lane, model, false AS halted FROM queue_pauses WHERE paused
    UNION ALL
    SELECT l.lane, '', true FROM lanes l JOIN halts h ON h.what = 'LEASES';
