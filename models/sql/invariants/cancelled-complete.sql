SELECT 'job_' || id AS id FROM examined WHERE status = 'COMPLETED' AND cancel_requested_at IS NOT NULL
