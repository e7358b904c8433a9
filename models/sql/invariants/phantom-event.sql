SELECT 'job_' || e.job_id AS id FROM (SELECT job_id FROM job_events ORDER BY job_id DESC LIMIT @jobs) e
WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = e.job_id)
