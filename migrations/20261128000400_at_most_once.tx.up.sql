-- A job that is never started twice in one run.
SET LOCAL lock_timeout = '5s';
ALTER TABLE jobs ADD COLUMN at_most_once boolean NOT NULL DEFAULT false;
