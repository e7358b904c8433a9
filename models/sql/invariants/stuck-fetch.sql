SELECT 'job_' || f.job_id AS id FROM input_fetches f
WHERE greatest(f.next_at, f.claimed_until) < clock_timestamp() - interval '10 minutes'
