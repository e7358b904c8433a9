-- Machines that end before their agents register, and models that were removed from the catalogue.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools
    -- How many machines in a row did not start, why the newest did not, and when it ended.
    ADD COLUMN boot_failures  integer NOT NULL DEFAULT 0,
    ADD COLUMN boot_failure   text    NOT NULL DEFAULT '',
    ADD COLUMN boot_failed_at timestamptz,
    -- The newest of them had registered, and ended soon after.
    ADD COLUMN boot_exits     boolean NOT NULL DEFAULT false,
    -- How often in a row the pool made a pause, and when the newest began and ends.
    ADD COLUMN boot_pauses    integer NOT NULL DEFAULT 0,
    ADD COLUMN boot_paused_at timestamptz,
    ADD COLUMN boot_retry_at  timestamptz;
ALTER TABLE workers
    -- Why its registration was refused, or why it ended before it registered.
    ADD COLUMN boot_failure text;
ALTER TABLE catalogue_entries
    -- When the entry was removed, and by whom. A removed entry has no current version; these are of its newest.
    ADD COLUMN removed_at timestamptz,
    ADD COLUMN removed_by text;
