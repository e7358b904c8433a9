SELECT 'job_' || j.id AS id FROM examined j
WHERE j.deleted_at IS NOT NULL AND (j.params <> '{}'
    OR num_nonnulls(j.metadata, j.output, j.failure_reason, j.cancel_reason, j.progress_message, j.handle, j.reuse_digest, j.reuse_refs) > 0
    OR EXISTS (SELECT FROM job_inputs i WHERE i.job_id = j.id AND (i.wrapped_key IS NOT NULL OR i.ciphertext <> ''))
    OR EXISTS (SELECT FROM job_runs r WHERE r.job_id = j.id AND (r.params <> '{}' OR r.failure_reason IS NOT NULL))
    OR EXISTS (SELECT FROM approvals a WHERE a.job_id = j.id AND a.note IS NOT NULL)
    OR EXISTS (SELECT FROM job_attempts a WHERE a.job_id = j.id AND num_nonnulls(a.failure_reason, a.error_detail) > 0)
    OR EXISTS (SELECT FROM dead_letters d WHERE d.job_id = j.id AND d.reason <> 'deleted')
    OR j.callback_url IS NOT NULL OR EXISTS (SELECT FROM webhook_events v WHERE v.job_id = j.id AND v.job IS NOT NULL)
    OR EXISTS (SELECT FROM artifacts r WHERE r.job_id = j.id)
    OR EXISTS (SELECT FROM input_uses u WHERE u.job_id = j.id)
    OR EXISTS (SELECT FROM job_sources s WHERE s.job_id = j.id))
