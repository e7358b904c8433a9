SET LOCAL lock_timeout = '5s';

-- What is known of what a promotion lost: when the newest transaction was committed that came from the region before, and when that
-- region's PostgreSQL was last heard. Null if that is not known, and if nothing was taken over.
ALTER TABLE region_promotions ADD COLUMN newest_at timestamptz, ADD COLUMN heard_at timestamptz;
