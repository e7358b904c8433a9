SELECT 'job_' || job_id AS id FROM job_attempts WHERE ended_at IS NULL GROUP BY job_id HAVING count(*) > 1
UNION ALL
SELECT 'wrk_' || worker_id FROM job_attempts WHERE ended_at IS NULL GROUP BY worker_id HAVING count(*) > 1
