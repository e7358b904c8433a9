-- Records that a process is alive, and forgets the processes that were silent for long.
--
-- If no process of its kind wrote for at least the gap, it records that gap, which ends now. If an API
-- process itself was silent for as long, it records when that began.
--
-- Locks: the row of the kind, then rows of processes.
WITH was AS MATERIALIZED (
    SELECT seen_at <= clock_timestamp() - make_interval(secs => @gap) AS away FROM presence WHERE kind = @kind FOR UPDATE
),
kind_seen AS (
    UPDATE presence SET
        gap_began_at = CASE WHEN away THEN seen_at ELSE gap_began_at END,
        gap_ended_at = CASE WHEN away THEN clock_timestamp() ELSE gap_ended_at END,
        seen_at = greatest(seen_at, clock_timestamp())
    FROM was WHERE kind = @kind
),
replicas_forgotten AS (
    DELETE FROM replicas WHERE seen_at < clock_timestamp() - make_interval(secs => @kept) AND id <> @id
),
replica_seen AS (
    INSERT INTO replicas AS r (id, kind, version, host, started_at, seen_at)
    VALUES (@id, @kind, @version, @host, clock_timestamp(), clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET seen_at = greatest(r.seen_at, EXCLUDED.seen_at)
),
apis_forgotten AS (
    DELETE FROM api_processes WHERE seen_at < clock_timestamp() - make_interval(secs => @kept) AND id <> @id
)
INSERT INTO api_processes AS p (id, seen_at) SELECT @id, clock_timestamp() WHERE @kind = 'api'
ON CONFLICT (id) DO UPDATE SET
    silent_from = CASE WHEN p.seen_at <= EXCLUDED.seen_at - make_interval(secs => @gap) THEN p.seen_at ELSE p.silent_from END,
    seen_at = greatest(p.seen_at, EXCLUDED.seen_at)
