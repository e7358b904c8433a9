SELECT 'art_' || r.id AS id FROM examined j
JOIN artifacts r ON r.job_id = j.id
JOIN uploads u ON u.object_key = r.object_key
WHERE r.attempt_id IS NOT NULL AND (u.attempt_id <> r.attempt_id OR u.job_id <> r.job_id OR u.type <> r.type
    OR u.size_bytes <> r.size_bytes OR u.checksum <> r.checksum)
