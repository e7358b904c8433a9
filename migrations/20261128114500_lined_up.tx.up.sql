SET LOCAL lock_timeout = '5s';

-- Returns the first jobs of these queues in an account's line, and the virtual times at which they start.
-- Each queue is read in its order by the index jobs_next_in_queue, as claims do.
DROP FUNCTION lined_up;
CREATE FUNCTION lined_up(account uuid, virtual_time float8, of_lane text, of_promoted boolean, of_queues jsonb, most integer)
RETURNS TABLE (id uuid, start float8, queue_order bigint) LANGUAGE sql STABLE AS $$
    SELECT j.id, virtual_time + (sum(j.estimated_gpu_seconds) OVER (ORDER BY j.queue_order) - j.estimated_gpu_seconds) / a.weight,
        j.queue_order
    FROM (
        SELECT first.* FROM jsonb_to_recordset(of_queues) AS q (lane text, model text, gpu_rank integer, region text, needs text)
        CROSS JOIN LATERAL (
            SELECT j.id, j.estimated_gpu_seconds, j.queue_order FROM queued_jobs j
            WHERE j.account_id = account AND j.lane = of_lane AND j.promoted = of_promoted
                AND j.model = q.model AND j.gpu_rank = q.gpu_rank AND j.region = q.region AND j.needs = q.needs
            ORDER BY j.queue_order LIMIT most) first
        WHERE q.lane = of_lane ORDER BY first.queue_order LIMIT most) j
    JOIN accounts a ON a.id = account
$$;
