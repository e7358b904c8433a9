SELECT 'job_' || j.id AS id FROM examined j
JOIN job_attempts a ON a.job_id = j.id
JOIN job_dependencies d ON d.job_id = j.id
JOIN jobs p ON p.id = d.depends_on
WHERE CASE d.on_failure WHEN 'CONTINUE' THEN p.run = 1 AND (p.completed_at IS NULL OR p.completed_at > a.leased_at)
    ELSE p.status <> 'COMPLETED' OR p.completed_at > a.leased_at END
