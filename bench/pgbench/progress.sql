\set n random(1, 4000)
\set p random(1, 100)
WITH a AS (
    UPDATE attempts SET lease_expires_at = clock_timestamp() + interval '30 s' WHERE n = :n AND ended_at IS NULL RETURNING job_id
)
UPDATE jobs SET percent = :p, phase = 'RENDERING' FROM a WHERE jobs.id = a.job_id;
