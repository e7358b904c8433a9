SELECT 'wfl_' || w.id AS id FROM workflows w
WHERE w.status = 'RUNNING' AND NOT EXISTS (
    SELECT FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id
    WHERE n.workflow_id = w.id AND j.completed_at IS NULL AND (
        j.status <> 'BLOCKED' OR j.blocked_by = 0
        OR j.type = 'workflow.approval'
        OR EXISTS (SELECT FROM input_fetches f WHERE f.job_id = j.id)
        OR EXISTS (SELECT FROM unsettled u WHERE u.job_id = j.id AND u.since > clock_timestamp() - interval '10 minutes')
        OR EXISTS (
            SELECT FROM job_dependencies d JOIN jobs p ON p.id = d.depends_on
            WHERE d.job_id = j.id AND (p.completed_at IS NULL OR EXISTS (SELECT FROM parent_retries r WHERE r.job_id = p.id)))))
