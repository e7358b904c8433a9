SELECT 'job_' || id AS id FROM (
    SELECT j.id, e.run, coalesce(lag(e.run) OVER (PARTITION BY j.id ORDER BY e.seq), 1) AS was
    FROM examined j JOIN job_events e ON e.job_id = j.id) r
WHERE run NOT IN (was, was + 1)
