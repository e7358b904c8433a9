SELECT 'job_' || j.id AS id FROM examined j
JOIN artifacts r ON r.id = j.result_id
LEFT JOIN job_attempts a ON a.id = r.attempt_id
WHERE r.job_id <> j.id OR r.type <> 'FINAL_VIDEO' OR a.status IS DISTINCT FROM 'SUCCEEDED' OR j.status <> 'COMPLETED'
