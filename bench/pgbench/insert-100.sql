WITH fresh AS (
    INSERT INTO jobs (params) SELECT jsonb_build_object('payload', repeat('x', 384)) FROM generate_series(1, 100) RETURNING id
), told AS (
    INSERT INTO events (job_id, seq, type) SELECT id, 1, 'QUEUED' FROM fresh
)
INSERT INTO outbox (payload) SELECT jsonb_build_object('job', id) FROM fresh;
