SET LOCAL lock_timeout = '5s';

-- What was predicted when the job was submitted: how long until it is complete.
ALTER TABLE jobs ADD COLUMN predicted_seconds float8;
