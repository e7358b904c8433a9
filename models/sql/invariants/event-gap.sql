SELECT 'job_' || j.id AS id FROM examined j
CROSS JOIN LATERAL (SELECT count(*) AS n, min(seq) AS first, max(seq) AS last FROM job_events WHERE job_id = j.id) e
WHERE (e.n <> j.event_seq OR e.first IS DISTINCT FROM 1 OR e.last <> j.event_seq)
    -- The retention of events drops whole months, and the rows of their jobs can outlive them.
    AND (e.n > 0 OR j.completed_at IS NULL OR j.completed_at > clock_timestamp() - interval '1 day')
