SELECT 'job_' || coalesce(j.id, a.job_id) AS id
FROM (SELECT * FROM jobs WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING') OR current_attempt_id IS NOT NULL) j
FULL JOIN (SELECT * FROM job_attempts WHERE ended_at IS NULL) a ON a.job_id = j.id
WHERE j.current_attempt_id IS DISTINCT FROM a.id OR a.attempt_no <> j.attempt_no OR a.run <> j.run
    OR j.status NOT IN ('ASSIGNED', 'RUNNING', 'COMPLETING')
