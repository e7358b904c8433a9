-- Finds the next jobs that may start, in the order in which they start if nobody else takes or
-- adds a job. Each job advances its account's virtual time; the value returned is the one
-- before the job. No account has more jobs in the result than it can run.
--
-- @queues are the queues that the worker reads, in the order in which it reads their lines.
-- All jobs are of the first line that has any. The jobs in @passed are left out.
--
-- How many jobs it reads of an account depends on how many accounts come before: all that
-- could be given for the first account, half of that for the third, and at least five. The
-- known order ends at the virtual time at which an account continues after the jobs that were
-- read of it. So the result can be shorter than asked for, but not empty.
--
-- The conditions in comments hold for workers that take jobs of @accounts only. They are apart,
-- so that PostgreSQL plans each statement for what it reads.
--
-- Locks nothing. The expressions are those of the indexes jobs_next_in_queue and account_lanes_ready.
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
),
first AS MATERIALIZED (
    SELECT h.*, a.weight, greatest(a.max_running - a.running, 0) AS room,
        least(greatest(ceil(1.5 * @most / row_number() OVER (ORDER BY h.virtual_time, h.queue_order)), 5), @most)::integer AS depth
    FROM heads h JOIN accounts a ON a.id = h.account_id
),
next AS (
    SELECT j.*, l.lane, l.promoted,
        l.virtual_time + coalesce(sum(j.estimated_gpu_seconds / l.weight) OVER before, 0) AS virtual_time,
        CASE WHEN row_number() OVER own = l.depth AND l.depth < l.room
            THEN l.virtual_time + sum(j.estimated_gpu_seconds / l.weight) OVER own END AS goes_on
    FROM first l CROSS JOIN LATERAL (
        SELECT j.* FROM asked q CROSS JOIN LATERAL (
            SELECT id, account_id, model, gpu_rank, coalesce(CASE WHEN require_region THEN region END, '') AS region, needs,
                coalesce(region, '') AS wish, queue_order, estimated_gpu_seconds
            FROM jobs
            WHERE status = 'QUEUED' AND lane = l.lane AND account_id = l.account_id
                AND (lane <> tier AND lane <> 'CRITICAL') = l.promoted
                AND model = q.model AND gpu_rank = q.gpu_rank
                AND coalesce(CASE WHEN require_region THEN region END, '') = q.region AND needs = q.needs
                AND (expires_at IS NULL OR started_at IS NOT NULL OR expires_at > clock_timestamp())
                AND id <> ALL (@passed::uuid[]) AND queue_order >= l.queue_order
            ORDER BY queue_order LIMIT least(l.depth, l.room)) j
        WHERE q.lane = l.lane AND q.promoted = l.promoted
        ORDER BY j.queue_order LIMIT least(l.depth, l.room)) j
    WINDOW own AS (PARTITION BY j.account_id ORDER BY j.queue_order),
        before AS (PARTITION BY j.account_id ORDER BY j.queue_order ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT id, account_id, lane, promoted, model, gpu_rank, region, needs, wish, queue_order, virtual_time
FROM (SELECT *, min(goes_on) OVER () AS known_until, min(virtual_time) OVER () AS beginning FROM next) n
WHERE known_until IS NULL OR virtual_time < known_until OR virtual_time = beginning
ORDER BY virtual_time, queue_order LIMIT @most
