SELECT 'wrk_' || w.id AS id FROM workers w
LEFT JOIN job_attempts a ON a.worker_id = w.id AND a.ended_at IS NULL
WHERE a.id IS NULL AND w.status = 'BUSY' OR a.id IS NOT NULL AND w.status NOT IN ('BUSY', 'DRAINING')
