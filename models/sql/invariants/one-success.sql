SELECT 'job_' || j.id AS id FROM examined j
CROSS JOIN LATERAL (
    SELECT count(*) AS n, max(attempt_no) AS last FROM job_attempts WHERE job_id = j.id AND run = j.run AND status = 'SUCCEEDED') a
WHERE a.n <> CASE WHEN j.status = 'COMPLETED' THEN 1 ELSE 0 END OR a.last <> j.attempt_no
