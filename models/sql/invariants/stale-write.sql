SELECT 'job_' || id AS id FROM (
    SELECT j.id, a.attempt_no, max(a.attempt_no) OVER (PARTITION BY j.id ORDER BY e.seq) AS newest
    FROM examined j JOIN job_events e ON e.job_id = j.id JOIN job_attempts a ON a.id = e.attempt_id) w
WHERE attempt_no < newest
