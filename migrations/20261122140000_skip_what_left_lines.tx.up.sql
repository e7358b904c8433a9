SET LOCAL lock_timeout = '5s';

-- No queued job of the place has a queue_order below it. Who looks for the first one
-- begins here, and does not walk past the index entries of all those that left since
-- the last vacuum.
ALTER TABLE account_lanes ADD COLUMN first_order bigint NOT NULL DEFAULT 0;
