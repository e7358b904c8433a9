-- lined_up reads the index jobs_in_line, which asks for this second condition
-- since the step before.
CREATE OR REPLACE FUNCTION lined_up(account uuid, virtual_time float8, of_lane text, of_promoted boolean, of_models text[], most integer)
RETURNS TABLE (id uuid, start float8, queue_order bigint) LANGUAGE sql STABLE AS $$
    SELECT j.id, virtual_time + (sum(j.estimated_gpu_seconds) OVER (ORDER BY j.queue_order) - j.estimated_gpu_seconds) / a.weight,
        j.queue_order
    FROM (
        SELECT j.id, j.estimated_gpu_seconds, j.queue_order FROM jobs j
        WHERE j.status = 'QUEUED' AND j.lane || '' <> '' AND j.account_id = account AND j.lane = of_lane
            AND (j.lane <> j.tier AND j.lane <> 'CRITICAL') = of_promoted AND j.model = ANY (of_models)
        ORDER BY j.queue_order LIMIT most) j
    JOIN accounts a ON a.id = account
$$;
