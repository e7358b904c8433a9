-- Claims the current periods of passes. PostgreSQL's clock defines the periods.
--
-- A caller that read the clock in a period that has since been overtaken does not get it. If the
-- clock was set back by more than two periods, the pass continues in the periods that the clock
-- now shows.
--
-- Locks: the passes, in the order of their names.
--
-- Returns for each pass whether the caller got its period, and how many seconds of it are left.
WITH clock AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now),
asked AS MATERIALIZED (
    SELECT name, every, late, floor((now - late) / every)::bigint AS period
    FROM clock CROSS JOIN jsonb_to_recordset(@passes) AS p (name text, every float8, late float8)
),
claimed AS (
    INSERT INTO passes AS p (name, period, begun_at) SELECT name, period, clock_timestamp() FROM asked ORDER BY name
    ON CONFLICT (name) DO UPDATE SET period = EXCLUDED.period, begun_at = EXCLUDED.begun_at
    WHERE EXCLUDED.period > p.period OR EXCLUDED.period < p.period - 2
    RETURNING name
)
SELECT name, EXISTS (SELECT FROM claimed c WHERE c.name = asked.name), (period + 1) * every + late - now
FROM asked CROSS JOIN clock
