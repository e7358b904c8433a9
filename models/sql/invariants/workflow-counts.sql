-- One pass over the nodes: one for each workflow reads all jobs each time.
SELECT 'wfl_' || w.id AS id FROM workflows w
LEFT JOIN (
    SELECT n.workflow_id, count(*) FILTER (WHERE NOT n.reused AND j.completed_at IS NULL) AS open,
        count(*) FILTER (WHERE NOT n.reused AND NOT n.tolerated AND j.status IN ('FAILED', 'CANCELLED')) AS failed, count(*) AS nodes
    FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id GROUP BY n.workflow_id) is_so ON is_so.workflow_id = w.id
WHERE (w.open, w.failed, w.nodes) <> (coalesce(is_so.open, 0), coalesce(is_so.failed, 0), coalesce(is_so.nodes, 0))
