-- Finds the next jobs that may start: the heads of the queues of the first line that has any.
--
-- @queues are the queues that the worker reads, in the order in which it reads their lines.
-- Returns the first job of each account in the line, in the order of the accounts' virtual
-- times. Leaves out accounts at their running limit, and the jobs in @passed.
--
-- The conditions in comments hold for workers that take jobs of @accounts only. They are apart,
-- so that PostgreSQL plans each statement for what it reads.
--
-- Locks nothing. The expressions are those of the indexes jobs_next_in_queue and account_lanes_ready.
-- It walks both in their order and reads no more than it returns.
WITH asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(@queues)
        AS q (place integer, lane text, promoted boolean, model text, gpu_rank integer, region text, needs text)
),
-- The first line that has a job which may start.
line AS MATERIALIZED (
    SELECT lines.lane, lines.promoted
    FROM (SELECT lane, promoted, min(place) AS place FROM asked GROUP BY lane, promoted ORDER BY place) lines
    CROSS JOIN LATERAL (
        SELECT FROM account_lanes l CROSS JOIN asked q CROSS JOIN LATERAL (
            SELECT FROM jobs
            WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id
                AND (lane <> tier AND lane <> 'CRITICAL') = l.promoted
                AND model = q.model AND gpu_rank = q.gpu_rank
                AND coalesce(CASE WHEN require_region THEN region END, '') = q.region AND needs = q.needs
                AND (expires_at IS NULL OR started_at IS NOT NULL OR expires_at > clock_timestamp())
                AND id <> ALL (@passed::uuid[])
            ORDER BY queue_order LIMIT 1) j
        WHERE l.lane = lines.lane AND l.promoted = lines.promoted AND l.queued > 0 AND NOT l.capped
            AND q.lane = lines.lane AND q.promoted = lines.promoted /* AND l.account_id = ANY (@accounts::uuid[]) */
        ORDER BY l.virtual_time LIMIT 1) any_job
    ORDER BY lines.place LIMIT 1
),
-- The first job of each account in the line.
heads AS MATERIALIZED (
    SELECT head.*, l.lane, l.promoted, l.virtual_time
    FROM account_lanes l CROSS JOIN LATERAL (
        SELECT j.* FROM asked q CROSS JOIN LATERAL (
            SELECT id, account_id, model, gpu_rank, coalesce(CASE WHEN require_region THEN region END, '') AS region, needs,
                coalesce(region, '') AS wish, queue_order
            FROM jobs
            WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id
                AND (lane <> tier AND lane <> 'CRITICAL') = l.promoted
                AND model = q.model AND gpu_rank = q.gpu_rank
                AND coalesce(CASE WHEN require_region THEN region END, '') = q.region AND needs = q.needs
                AND (expires_at IS NULL OR started_at IS NOT NULL OR expires_at > clock_timestamp())
                AND id <> ALL (@passed::uuid[])
            ORDER BY queue_order LIMIT 1) j
        WHERE q.lane = l.lane AND q.promoted = l.promoted
        ORDER BY j.queue_order LIMIT 1) head
    WHERE l.lane = (SELECT lane FROM line) AND l.promoted = (SELECT promoted FROM line) AND l.queued > 0 AND NOT l.capped
        /* AND l.account_id = ANY (@accounts::uuid[]) */
    ORDER BY l.virtual_time, head.queue_order LIMIT @most
)
SELECT id, account_id, lane, promoted, model, gpu_rank, region, needs, wish, queue_order, virtual_time
FROM heads ORDER BY virtual_time, queue_order
