-- Continues next_heads.sql: the next jobs of the line, in the order in which they start if nobody else
-- takes or adds a job. Each job advances its account's virtual time; the value returned is the one
-- before the job. No account has more jobs in the result than it can run.
--
-- How many jobs it reads of an account depends on how many accounts come before: all that
-- could be given for the first account, half of that for the third, and at least five. The
-- known order ends at the virtual time at which an account continues after the jobs that were
-- read of it. So the result can be shorter than asked for, but not empty.
, first AS MATERIALIZED (
    SELECT h.*, a.weight, greatest(a.max_running - a.running, 0) AS room,
        least(greatest(ceil(1.5 * @most / row_number() OVER (ORDER BY h.virtual_time, h.queue_order)), 5), @most)::integer AS depth
    FROM heads h JOIN accounts a ON a.id = h.account_id
),
next AS (
    SELECT j.*,
        l.virtual_time + coalesce(sum(j.estimated_gpu_seconds / l.weight) OVER before, 0) AS virtual_time,
        CASE WHEN row_number() OVER own = l.depth AND l.depth < l.room
            THEN l.virtual_time + sum(j.estimated_gpu_seconds / l.weight) OVER own END AS goes_on
    FROM first l CROSS JOIN LATERAL (
        SELECT j.* FROM asked q CROSS JOIN LATERAL (
            SELECT id, account_id, lane, promoted, model, gpu_rank, region, needs, wish, queue_order, estimated_gpu_seconds
            FROM startable_jobs
            WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
                AND model = q.model AND gpu_rank = q.gpu_rank AND region = q.region AND needs = q.needs
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
