SET LOCAL lock_timeout = '5s';

-- Of an account's queue in a line, the order before which no job waits: a claim begins to look
-- there, and not at the index entries of all that left the queue since the last vacuum. Who
-- enters lowers it, and the sweep sets it anew; 0 is always right.
ALTER TABLE account_lanes ADD COLUMN begins_at bigint NOT NULL DEFAULT 0;
