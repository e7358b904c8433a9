SELECT 'job_' || id AS id FROM jobs
WHERE (status = 'SCHEDULED' OR status = 'BLOCKED' AND blocked_by = 0) AND run_at < clock_timestamp() - interval '10 minutes'
