\set n random(1, 4000)
UPDATE attempts SET lease_expires_at = clock_timestamp() + interval '30 s' WHERE n = :n AND ended_at IS NULL;
