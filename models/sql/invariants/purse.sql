WITH budgeted AS MATERIALIZED (
    SELECT DISTINCT a.id FROM examined e JOIN jobs j ON j.id = e.id JOIN accounts a ON a.id = j.account_id WHERE a.budgeted
),
wrong AS MATERIALIZED (
    SELECT b.id FROM budgeted b WHERE coalesce((SELECT p.reserved_usd FROM purses p WHERE p.account_id = b.id AND p.user_id = ''), 0)
        + coalesce((SELECT sum(n.reserved_usd) FROM purse_entries n WHERE n.account_id = b.id), 0)
        <> (SELECT coalesce(sum(l.estimated_usd), 0) FROM jobs l WHERE l.account_id = b.id AND l.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING'))
)
SELECT 'job_' || e.id AS id FROM examined e JOIN jobs j ON j.id = e.id JOIN wrong w ON w.id = j.account_id
