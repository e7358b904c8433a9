SET LOCAL lock_timeout = '5s';

-- When the deletion of an account last did something, other than to wait for jobs.
ALTER TABLE account_deletions ADD COLUMN progress_at timestamptz NOT NULL DEFAULT clock_timestamp();
