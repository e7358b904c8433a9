SET LOCAL lock_timeout = '5s';

-- How long a run has been QUEUED and how long workers have held it, summed over all its
-- waits and attempts, and when the newest lease began. NULL for runs that began before:
-- their times are not known.
ALTER TABLE jobs ADD COLUMN queued_seconds float8, ADD COLUMN leased_seconds float8, ADD COLUMN leased_at timestamptz;
ALTER TABLE jobs ALTER COLUMN queued_seconds SET DEFAULT 0, ALTER COLUMN leased_seconds SET DEFAULT 0;
