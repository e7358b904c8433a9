SELECT 'wfl_' || w.id AS id FROM workflows w
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE NOT n.reused AND j.completed_at IS NULL) AS open,
        count(*) FILTER (WHERE NOT n.reused AND NOT n.tolerated AND j.status IN ('FAILED', 'CANCELLED')) AS failed, count(*) AS nodes
    FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id WHERE n.workflow_id = w.id) is_so
WHERE (w.open, w.failed, w.nodes) <> (is_so.open, is_so.failed, is_so.nodes)
