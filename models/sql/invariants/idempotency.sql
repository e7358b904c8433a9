SELECT 'job_' || j.id AS id FROM examined j
JOIN jobs other ON other.account_id = j.account_id AND other.idempotency_key = j.idempotency_key AND other.id <> j.id
