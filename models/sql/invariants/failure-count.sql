SELECT 'job_' || id AS id FROM examined
WHERE failures > max_attempts OR failures = max_attempts AND status IN ('SCHEDULED', 'QUEUED')
