SET LOCAL lock_timeout = '5s';

-- How many keys were issued to an attempt, counted on its row instead of over the
-- keys. Those of attempts that run now are not counted again: the count bounds what
-- is issued from here on.
ALTER TABLE job_attempts ADD COLUMN uploads integer NOT NULL DEFAULT 0;
