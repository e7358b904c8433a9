SELECT 'job_' || j.id AS id FROM examined j
JOIN artifacts c ON c.id = j.latest_checkpoint_id
WHERE c.job_id <> j.id OR c.type <> 'CHECKPOINT' OR c.rejected_at IS NOT NULL
