SELECT 'whd_' || d.id AS id FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id
WHERE d.state = 'PENDING' AND d.next_attempt_at < clock_timestamp() - interval '10 minutes'
    AND e.failing_since IS NULL -- a failing endpoint gets few tries at a time
    AND NOT EXISTS (SELECT FROM webhook_deliveries o
        WHERE o.job_id = d.job_id AND o.endpoint_id = d.endpoint_id AND o.run < d.run AND o.state = 'PENDING')
