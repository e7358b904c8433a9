-- Why a pool's provider could not list or delete its machines when it was last asked, and since when.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools
    ADD COLUMN provider_problem       text NOT NULL DEFAULT '',
    ADD COLUMN provider_problem_since timestamptz;
