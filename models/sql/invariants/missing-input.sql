SELECT 'job_' || j.id AS id FROM examined j
WHERE j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING') AND j.params ->> 'referenceImage' IS NOT NULL
    AND NOT EXISTS (SELECT FROM input_uses u JOIN artifacts r ON r.id = u.artifact_id
        WHERE u.job_id = j.id AND u.reference IN (j.params ->> 'referenceImage', split_part(j.params ->> 'referenceImage', '.', 1)) AND r.type = 'INPUT')
    AND NOT (j.status = 'BLOCKED' AND EXISTS (SELECT FROM input_fetches f WHERE f.job_id = j.id))
    AND NOT EXISTS (SELECT FROM job_sources s WHERE s.job_id = j.id)
UNION ALL
SELECT 'job_' || j.id FROM examined j JOIN job_sources s ON s.job_id = j.id JOIN jobs p ON p.id = s.source_id
WHERE j.completed_at IS NULL AND p.status = 'COMPLETED' AND p.result_id IS NULL AND s.takes && '{video,firstFrame,lastFrame}'
