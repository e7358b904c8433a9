-- The accounts that a worker's pool is dedicated to, empty for all, so that a lease reads no pool.
SET LOCAL lock_timeout = '5s';
ALTER TABLE workers ADD COLUMN accounts uuid[] NOT NULL DEFAULT '{}';
ALTER TABLE pools
    ALTER COLUMN accounts DROP DEFAULT,
    ALTER COLUMN accounts TYPE uuid[] USING accounts::uuid[],
    ALTER COLUMN accounts SET DEFAULT '{}';
