INSERT INTO jobs (params) VALUES (jsonb_build_object('payload', repeat('x', 384)));
