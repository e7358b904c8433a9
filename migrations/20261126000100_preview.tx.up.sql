-- The newest preview of a job's run.
SET LOCAL lock_timeout = '5s';
ALTER TABLE jobs ADD COLUMN preview_id uuid;
