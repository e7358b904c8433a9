-- Begins both statements that find the next jobs: next_jobs.sql and next_in_order.sql continue it.
--
-- @queues are the queues that the worker reads, in the order in which it reads their lines. places,
-- which models.picking adds before this part, are the accounts' places in lines that have queued jobs
-- and are below their running limit; for workers that take jobs of some accounts only, those of these.
--
-- Finds the first line that has a job which may start, and the first job of each account there. Leaves
-- out the jobs in @passed.
--
-- Locks nothing. It walks the indexes jobs_next_in_queue and account_lanes_ready in their order, and reads
-- no more than it returns.
asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(@queues)
        AS q (place integer, lane text, promoted boolean, model text, gpu_rank integer, region text, needs text)
),
line AS MATERIALIZED (
    SELECT lines.lane, lines.promoted
    FROM (SELECT lane, promoted, min(place) AS place FROM asked GROUP BY lane, promoted ORDER BY place) lines
    CROSS JOIN LATERAL (
        SELECT FROM places l CROSS JOIN asked q CROSS JOIN LATERAL (
            SELECT FROM startable_jobs
            WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
                AND model = q.model AND gpu_rank = q.gpu_rank AND region = q.region AND needs = q.needs
                AND id <> ALL (@passed::uuid[])
            ORDER BY queue_order LIMIT 1) j
        WHERE l.lane = lines.lane AND l.promoted = lines.promoted AND q.lane = lines.lane AND q.promoted = lines.promoted
        ORDER BY l.virtual_time LIMIT 1) any_job
    ORDER BY lines.place LIMIT 1
),
heads AS MATERIALIZED (
    SELECT head.*, l.virtual_time
    FROM places l CROSS JOIN LATERAL (
        SELECT j.* FROM asked q CROSS JOIN LATERAL (
            SELECT id, account_id, lane, promoted, model, gpu_rank, region, needs, wish, queue_order
            FROM startable_jobs
            WHERE lane = l.lane AND account_id = l.account_id AND promoted = l.promoted
                AND model = q.model AND gpu_rank = q.gpu_rank AND region = q.region AND needs = q.needs
                AND id <> ALL (@passed::uuid[])
            ORDER BY queue_order LIMIT 1) j
        WHERE q.lane = l.lane AND q.promoted = l.promoted
        ORDER BY j.queue_order LIMIT 1) head
    WHERE l.lane = (SELECT lane FROM line) AND l.promoted = (SELECT promoted FROM line)
    ORDER BY l.virtual_time, head.queue_order LIMIT @most
)
