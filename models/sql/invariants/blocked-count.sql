SELECT 'job_' || j.id AS id FROM examined j
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM job_dependencies d JOIN jobs p ON p.id = d.depends_on
    WHERE d.job_id = j.id AND (
        -- The Settler has to settle it, and does so within seconds.
        EXISTS (SELECT FROM unsettled u WHERE u.depends_on = p.id AND u.job_id = j.id AND u.since > clock_timestamp() - interval '10 minutes')
        OR p.status <> 'COMPLETED' AND NOT (
            d.on_failure = 'CONTINUE' AND p.completed_at IS NOT NULL
            AND NOT EXISTS (SELECT FROM parent_retries r WHERE r.job_id = p.id)))) open
WHERE j.blocked_by <> open.n + (SELECT count(*) FROM input_fetches f WHERE f.job_id = j.id)
        -- Its question has to be asked, and answered.
        + CASE WHEN j.type = 'workflow.approval' AND j.status = 'BLOCKED'
            THEN 2 - (SELECT count(*) FROM approvals a WHERE a.job_id = j.id AND a.run = j.run) ELSE 0 END
    AND j.status NOT IN ('FAILED', 'CANCELLED')
    -- A job that did not wait for a parent's end in success does not wait for a later run of it.
    AND NOT (j.status <> 'BLOCKED' AND EXISTS (
        SELECT FROM job_dependencies d JOIN jobs p ON p.id = d.depends_on WHERE d.job_id = j.id AND d.on_failure = 'CONTINUE' AND p.run > 1))
