SELECT 'acc_' || a.id AS id FROM accounts a
LEFT JOIN (
    SELECT account_id,
        count(*) FILTER (WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED')) AS queued,
        count(*) FILTER (WHERE status IN ('ASSIGNED', 'RUNNING', 'COMPLETING')) AS running
    FROM jobs WHERE status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING')
    GROUP BY account_id) j ON j.account_id = a.id
WHERE a.queued <> coalesce(j.queued, 0) OR a.running <> coalesce(j.running, 0)
