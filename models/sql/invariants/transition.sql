-- The states that the events of the examined jobs report. COMPLETING has no event.
WITH states AS (
    SELECT j.id, j.status, j.run AS newest_run, e.run, e.seq, s.state
    FROM examined j
    JOIN job_events e ON e.job_id = j.id
    JOIN (VALUES
        ('QUEUED', 'QUEUED'), ('REQUEUED', 'QUEUED'), ('SCHEDULED', 'SCHEDULED'), ('RETRY_SCHEDULED', 'SCHEDULED'),
        ('BLOCKED', 'BLOCKED'), ('LEASED', 'ASSIGNED'), ('STARTED', 'RUNNING'), ('COMPLETED', 'COMPLETED'),
        ('FAILED', 'FAILED'), ('CANCELLED', 'CANCELLED')) AS s (type, state) ON s.type = e.type)
SELECT 'job_' || id AS id FROM (
    SELECT s.*, lag(state) OVER run AS was, row_number() OVER run AS place FROM states s
    WINDOW run AS (PARTITION BY id, run ORDER BY seq)) m
WHERE coalesce(was, '') || '>' || state <> ALL (@edges::text[])
    -- A reopened run can become BLOCKED as its second state.
    AND NOT (run > 1 AND place = 2 AND was = 'QUEUED' AND state = 'BLOCKED')
