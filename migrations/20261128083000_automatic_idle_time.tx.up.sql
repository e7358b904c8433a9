SET LOCAL lock_timeout = '5s';

-- NULL means that the scaler decides how long idle workers stay.
ALTER TABLE pools ALTER COLUMN idle_seconds DROP NOT NULL, ALTER COLUMN idle_seconds DROP DEFAULT;
