SELECT d.object_key AS id FROM object_deletions d JOIN artifacts r ON r.object_key = d.object_key
UNION ALL
SELECT d.object_key FROM object_deletions d JOIN uploads u ON u.object_key = d.object_key
