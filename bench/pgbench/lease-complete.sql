WITH next AS (
    SELECT id FROM jobs WHERE status = 'QUEUED' AND lane = 'BATCH' ORDER BY sort_key LIMIT 1 FOR UPDATE SKIP LOCKED
), fresh AS (
    INSERT INTO attempts (job_id) SELECT id FROM next RETURNING id, job_id
)
UPDATE jobs SET status = 'RUNNING', attempt_no = attempt_no + 1, attempt_id = fresh.id FROM fresh WHERE jobs.id = fresh.job_id
RETURNING jobs.id AS job_id, fresh.id AS attempt_id \gset
WITH ended AS (
    UPDATE attempts SET status = 'SUCCEEDED', ended_at = clock_timestamp() WHERE id = :attempt_id AND ended_at IS NULL RETURNING job_id
), told AS (
    INSERT INTO events (job_id, seq, type) SELECT job_id, 2, 'COMPLETED' FROM ended
), sent AS (
    INSERT INTO outbox (payload) SELECT jsonb_build_object('job', job_id) FROM ended
)
UPDATE jobs SET status = 'COMPLETED', output = '{"ok": true}', ended_at = clock_timestamp() WHERE id = :job_id;
