SELECT 'job_' || j.id AS id FROM examined j
CROSS JOIN LATERAL (
    SELECT run, max(seq) AS last, max(seq) FILTER (WHERE terminal) AS ended, count(*) FILTER (WHERE terminal) AS ends, max(type) FILTER (WHERE terminal) AS type
    FROM (SELECT *, type IN ('COMPLETED', 'FAILED', 'CANCELLED') AS terminal FROM job_events WHERE job_id = j.id) e
    GROUP BY run) e
WHERE CASE WHEN e.run < j.run OR j.completed_at IS NOT NULL THEN e.ends <> 1 OR e.ended <> e.last ELSE e.ends > 0 END
    OR e.run > j.run OR e.run = j.run AND e.type <> j.status
