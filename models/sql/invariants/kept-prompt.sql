SELECT 'job_' || j.id AS id FROM examined j JOIN job_inputs i ON i.job_id = j.id
WHERE j.deleted_at IS NULL AND (i.wrapped_key IS NULL OR i.ciphertext = '')
