-- The newest samples of each worker's GPUs. They are not columns of workers, whose rows each lease
-- reads and writes as a whole.
CREATE TABLE worker_gpus (
    worker_id  uuid PRIMARY KEY REFERENCES workers ON DELETE CASCADE,
    gpus       jsonb       NOT NULL,
    sampled_at timestamptz NOT NULL
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
