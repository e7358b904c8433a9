-- Records signs of life of workers, and which models they hold warm. A LOST worker that
-- reports again becomes IDLE or continues to drain. Skips the write if the last sign is less
-- than 5 seconds old and nothing else changed.
--
-- Locks: the workers that it writes, in the order of their ids.
--
-- Returns all the workers.
--
-- @patience, if not empty, is how long the statement waits for a lock at most: its error is then 55P03.
WITH patience AS MATERIALIZED (
    SELECT CASE WHEN @patience::text <> '' THEN set_config('lock_timeout', @patience::text, true) ELSE '' END AS set
),
signs AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(@signs) AS s (worker_id uuid, warm text[])
    WHERE (SELECT set IS NOT NULL FROM patience)
),
touched AS MATERIALIZED (
    SELECT w.id, s.warm FROM workers w JOIN signs s ON s.worker_id = w.id
    WHERE w.status <> 'TERMINATED' AND (
        w.status = 'LOST' OR s.warm <> w.warm_models
        OR w.last_heartbeat_at > clock_timestamp() - interval '5 seconds' IS NOT TRUE)
    ORDER BY w.id FOR NO KEY UPDATE OF w
),
written AS (
    UPDATE workers w SET
        last_heartbeat_at = clock_timestamp(),
        idle_since = CASE WHEN w.status = 'LOST' THEN clock_timestamp() ELSE w.idle_since END,
        status = CASE WHEN w.status <> 'LOST' THEN w.status WHEN w.drain_reason IS NULL THEN 'IDLE' ELSE 'DRAINING' END,
        warm_models = coalesce(t.warm, w.warm_models)
    FROM touched t WHERE w.id = t.id
    RETURNING w.*
)
SELECT to_json(w) FROM written w
UNION ALL
SELECT to_json(w) FROM workers w JOIN signs s ON s.worker_id = w.id WHERE w.id <> ALL (ARRAY(SELECT id FROM touched))
