SET LOCAL lock_timeout = '5s';

-- Of an account's queue in a line, the order before which no job waits: a claim begins to look
-- there, and not at the index entries of all that left the queue since the last vacuum. Who
-- enters lowers it, and the sweep sets it anew; 0 is always right. Processes of an older
-- version do not lower it: while such ones run, what they requeue or submit ahead of others
-- may wait for the next sweep, 5 s.
ALTER TABLE account_lanes ADD COLUMN begins_at bigint NOT NULL DEFAULT 0;
