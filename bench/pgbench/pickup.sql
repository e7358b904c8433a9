INSERT INTO jobs (params) VALUES (jsonb_build_object('payload', repeat('x', 384)));
WITH next AS (
    SELECT id FROM jobs WHERE status = 'QUEUED' AND lane = 'BATCH' ORDER BY sort_key LIMIT 1 FOR UPDATE SKIP LOCKED
), fresh AS (
    INSERT INTO attempts (job_id) SELECT id FROM next RETURNING id, job_id
)
UPDATE jobs SET status = 'RUNNING', attempt_no = attempt_no + 1, attempt_id = fresh.id FROM fresh WHERE jobs.id = fresh.job_id;
