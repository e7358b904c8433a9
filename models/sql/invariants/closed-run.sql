SELECT 'job_' || j.id AS id FROM examined j
WHERE (SELECT count(*) FROM job_runs r WHERE r.job_id = j.id AND r.run < j.run) <> j.run - 1
UNION ALL
SELECT 'job_' || j.id FROM examined j JOIN job_events e ON e.job_id = j.id
WHERE e.type = 'DEAD_LETTERED' AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.job_id = j.id AND d.run = e.run)
