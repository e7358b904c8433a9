-- The machines that ended last: their paid time, and that of their workers and attempts, which are parts of it. A minute
-- for each worker is allowed, for the clocks of providers and agents.
SELECT m.instance_id AS id
FROM (
    SELECT * FROM machines WHERE gone_at IS NOT NULL AND created_at IS NOT NULL
    ORDER BY billed_until DESC LIMIT @jobs::bigint / 50) m
CROSS JOIN LATERAL (
    SELECT coalesce(sum(greatest(life.seconds, 0)), 0) AS alive, coalesce(sum(held.seconds), 0) AS leased
    FROM workers w
    CROSS JOIN LATERAL (
        SELECT extract(epoch FROM least(w.ended_at, m.billed_until) - greatest(w.created_at, m.created_at)) AS seconds) life
    CROSS JOIN LATERAL (
        SELECT sum(greatest(extract(epoch FROM least(a.ended_at, w.ended_at, m.billed_until) - a.leased_at), 0)) AS seconds
        FROM job_attempts a WHERE a.worker_id = w.id AND a.ended_at IS NOT NULL) held
    WHERE w.provider = m.provider AND w.provider_instance_id = m.instance_id AND w.registered_at IS NOT NULL) parts
WHERE parts.alive > m.workers * (extract(epoch FROM m.billed_until - m.created_at) + 60) OR parts.leased > parts.alive + 60 * m.workers
