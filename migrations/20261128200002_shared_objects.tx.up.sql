-- artifacts_of_object replaces this constraint.
SET LOCAL lock_timeout = '5s';

ALTER TABLE artifacts DROP CONSTRAINT artifacts_object_key_key;
