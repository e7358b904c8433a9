SELECT 'att_' || a.id AS id FROM examined j JOIN job_attempts a ON a.job_id = j.id JOIN workers w ON w.id = a.worker_id
WHERE a.status = 'LOST' AND a.ended_at < a.lease_expires_at
    -- An attempt ends in the transaction that ends its worker.
    AND NOT coalesce(w.ended_at BETWEEN a.ended_at AND a.ended_at + interval '1 minute', false)
