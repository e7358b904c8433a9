-- How busy each worker's GPUs were in the last two hours: a value a minute, the newest first, at most
-- 120. It is in whole percent and degrees, NULL if unknown, so that a row has less than a kilobyte.
-- It is not part of worker_gpus, which each heartbeat writes.
CREATE TABLE worker_gpu_history (
    worker_id   uuid PRIMARY KEY REFERENCES workers ON DELETE CASCADE,
    -- The minute of the newest values.
    at          timestamptz NOT NULL,
    -- The mean of the worker's GPUs, the memory of all of them, and the hottest.
    utilization smallint[]  NOT NULL,
    memory      smallint[]  NOT NULL,
    temperature smallint[]  NOT NULL
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
