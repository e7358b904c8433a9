\set n random(1, 4000)
WITH a AS (
    UPDATE attempts SET lease_expires_at = clock_timestamp() + interval '30 s' WHERE n = :n AND ended_at IS NULL RETURNING job_id
), j AS (
    UPDATE jobs SET priority = priority + 1 FROM a WHERE jobs.id = a.job_id RETURNING id, priority
), kept AS (
    INSERT INTO artifacts (job_id, object_key, size_bytes, step) SELECT id, 'checkpoints/' || id || '/' || priority, 1024, priority FROM j
)
INSERT INTO events (job_id, seq, type) SELECT id, priority, 'CHECKPOINTED' FROM j;
