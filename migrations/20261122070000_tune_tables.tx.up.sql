SET LOCAL lock_timeout = '5s';

-- By default autovacuum waits until a fifth of a table is dead: two million rows
-- of a history of ten million, of which the newest are what claims read first.
-- Tables of which few rows change all the time are vacuumed after so many dead
-- rows, however long they are; one that is mostly history skips its indexes then
-- (INDEX_CLEANUP AUTO), so that this is cheap. These settings take no lock that
-- reads or writes wait for.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.01, autovacuum_analyze_threshold = 5000);
ALTER TABLE job_attempts SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_analyze_threshold = 5000);
ALTER TABLE workers SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE accounts SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE account_lanes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE webhook_deliveries SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Messages are written, claimed and deleted: a claim finds room on its message's
-- page, and dead ones do not pile up before the oldest living.
ALTER TABLE outbox SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- job_events has no settings of its own: rows are appended and never change, and
-- go with their month's partition.
