SELECT 'job_' || a.job_id AS id FROM examined j
JOIN job_attempts a ON a.job_id = j.id
JOIN job_attempts b ON b.job_id = a.job_id AND b.attempt_no = a.attempt_no + 1
WHERE a.ended_at IS NULL OR a.ended_at > b.leased_at
