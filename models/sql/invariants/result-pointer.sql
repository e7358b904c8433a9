SELECT 'job_' || j.id AS id FROM examined j
JOIN artifacts r ON r.id = j.result_id
JOIN jobs m ON m.id = made_by(j.id)
LEFT JOIN job_attempts a ON a.id = r.attempt_id
WHERE r.job_id <> m.id OR r.type <> 'FINAL_VIDEO' OR a.status IS DISTINCT FROM CASE WHEN m.reused_from IS NULL THEN 'SUCCEEDED' END OR j.status <> 'COMPLETED'
