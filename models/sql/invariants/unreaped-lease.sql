SELECT 'att_' || id AS id FROM job_attempts
WHERE ended_at IS NULL AND lease_expires_at < clock_timestamp() - interval '10 minutes'
