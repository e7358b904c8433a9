-- What the provider of a pool says of its spot machines, as JSON. NULL: it has not been asked.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools ADD COLUMN advice jsonb;
