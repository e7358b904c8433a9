SELECT 'job_' || e.id AS id
FROM examined e JOIN job_attempts a ON a.job_id = e.id CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE kind = 'ATTEMPT') AS entries, sum(useful_seconds) AS useful, sum(wasted_seconds) AS wasted
    FROM ledger WHERE job_id = e.id AND attempt_id = a.id) l
WHERE l.entries <> CASE WHEN a.ended_at IS NULL THEN 0 ELSE 1 END
    OR abs(l.useful - (a.gpu_seconds - a.wasted_gpu_seconds)) > 0.001
    OR l.wasted < a.wasted_gpu_seconds - 0.001
UNION
-- A video that a provider has made, and whose attempt has ended, has its fee.
SELECT 'job_' || e.id AS id
FROM examined e JOIN provider_jobs p ON p.job_id = e.id
WHERE p.made_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM ledger f WHERE f.job_id = e.id AND f.provider_key = p.key AND f.kind = 'FEE')
    AND NOT EXISTS (SELECT FROM job_attempts a WHERE a.job_id = e.id AND a.ended_at IS NULL)
