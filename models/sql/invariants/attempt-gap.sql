SELECT 'job_' || j.id AS id FROM examined j
CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(max(attempt_no), 0) AS last FROM job_attempts WHERE job_id = j.id) a
WHERE a.n <> j.attempt_no OR a.last <> j.attempt_no
