SELECT 'job_' || j.id AS id FROM examined j
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM job_dependencies d JOIN jobs p ON p.id = d.depends_on
    WHERE d.job_id = j.id AND p.status <> 'COMPLETED') open
WHERE j.blocked_by <> open.n + (SELECT count(*) FROM input_fetches f WHERE f.job_id = j.id) AND j.status NOT IN ('FAILED', 'CANCELLED')
