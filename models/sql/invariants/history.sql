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
    SELECT DISTINCT ON (id) * FROM states WHERE run = newest_run ORDER BY id, seq DESC) newest
WHERE state <> CASE status WHEN 'COMPLETING' THEN 'RUNNING' ELSE status END
