-- Deliveries are kept for 30 days. If an endpoint changes while a run ends, the event may
-- or may not be sent to it.
WITH ends AS (
    SELECT id, account_id, callback_url, run, status, completed_at FROM examined WHERE completed_at IS NOT NULL
    UNION ALL
    SELECT j.id, j.account_id, j.callback_url, r.run, r.status, r.completed_at
    FROM examined j JOIN job_runs r ON r.job_id = j.id AND r.run < j.run),
late AS (SELECT * FROM ends WHERE completed_at > clock_timestamp() - interval '29 days')
SELECT 'job_' || j.id AS id FROM late j
WHERE j.callback_url IS NOT NULL AND NOT EXISTS (
    SELECT FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id AND e.url IS NULL
    WHERE d.job_id = j.id AND d.run = j.run)
UNION ALL
SELECT 'job_' || j.id FROM late j JOIN webhook_endpoints e ON e.account_id = j.account_id AND e.url IS NOT NULL
WHERE e.told_since < j.completed_at - interval '1 minute'
    AND coalesce(least(e.deleted_at, e.disabled_at), 'infinity') > j.completed_at + interval '1 minute'
    AND CASE WHEN e.format = 'STANDARD' THEN 'job.' || lower(j.status)
        WHEN j.status = 'COMPLETED' THEN 'video.completed' ELSE 'video.failed' END = ANY (e.events)
    AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.job_id = j.id AND d.run = j.run AND d.endpoint_id = e.id)
