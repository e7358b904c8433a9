SELECT 'job_' || j.id AS id FROM jobs j
JOIN accounts a ON a.id = j.account_id AND a.running < a.max_running
JOIN (SELECT unnest(@lanes::text[]) AS lane, unnest(@waits::float8[]) AS seconds) patience ON patience.lane = j.lane
WHERE j.status = 'QUEUED' AND j.queued_at < clock_timestamp() - make_interval(secs => patience.seconds)
    AND j.queued_at < clock_timestamp() - make_interval(secs => patience.seconds + paused_seconds(j.lane, j.model, j.queued_at, clock_timestamp()))
    AND NOT EXISTS (SELECT FROM closed_queues p WHERE p.lane = j.lane AND p.model IN ('', j.model))
    AND EXISTS (SELECT FROM workers w
        WHERE w.ended_at IS NULL AND w.status = 'IDLE' AND j.model = ANY (w.models) AND (NOT j.require_region OR w.region = j.region)
            AND w.quarantined_until > clock_timestamp() IS NOT TRUE
            AND (w.tiers = '{}' OR j.lane = ANY (w.tiers)) AND (w.accounts = '{}' OR j.account_id = ANY (w.accounts))
            AND (w.capacity_class = 'ON_DEMAND' OR j.needs NOT LIKE 'on-demand%') AND (w.capacity_class = 'SPOT' OR j.needs NOT LIKE 'cheap%')
            AND j.needs NOT LIKE '%price<=%'
            AND j.gpu_rank = 0 -- which larger GPUs there are is the catalogue's to say
            AND (w.gpu_type = 'any' OR NOT EXISTS (SELECT FROM catalogue_entries e
                WHERE e.name = j.model AND e.current AND NOT e.is_alias
                    AND NOT EXISTS (SELECT FROM json_array_elements_text(e.entry->'gpuTypes') g WHERE g = 'any' OR lower(g) = lower(w.gpu_type))))
            AND w.idle_since < clock_timestamp() - interval '1 minute'
            AND w.last_heartbeat_at > clock_timestamp() - interval '1 minute')
