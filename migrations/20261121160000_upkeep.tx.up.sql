SET LOCAL lock_timeout = '5s';

-- When the upkeep next looks whether an artifact may go. New ones are looked at
-- soon; those that were there before, at once.
ALTER TABLE artifacts ADD COLUMN review_at timestamptz NOT NULL DEFAULT '-infinity';
ALTER TABLE artifacts ALTER COLUMN review_at SET DEFAULT clock_timestamp();

-- How far the search for objects that no row names has come in the bucket, and
-- until when it is somebody's, or rests.
CREATE TABLE orphan_search (
    only_one      boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    after_key     text        NOT NULL DEFAULT '',
    claimed_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

INSERT INTO orphan_search DEFAULT VALUES;

-- Makes the monthly partitions of job_events from this month to the given
-- number of months ahead. Safe to call at any time, by many at once.
--
-- A table that is attached holds up nobody but who uses the default partition;
-- one that is created as a partition holds up everybody. Events of its month
-- that the default partition took (those of a process whose clock was wrong,
-- say) move over, unless they are too many to move while others wait: then the
-- month is left to the default partition.
CREATE OR REPLACE FUNCTION make_job_event_partitions(months_ahead integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most_moved constant integer := 10000;
    month timestamp;
    name  text;
    low   uuid;
    high  uuid;
    stray integer;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('make_job_event_partitions'));
    FOR i IN 0..months_ahead LOOP
        month := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => i);
        name := 'job_events_' || to_char(month, 'YYYY_MM');
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        low := uuid7_floor(month AT TIME ZONE 'UTC');
        high := uuid7_floor((month + interval '1 month') AT TIME ZONE 'UTC');
        LOCK TABLE ONLY job_events IN SHARE UPDATE EXCLUSIVE MODE;
        LOCK TABLE job_events_default IN ACCESS EXCLUSIVE MODE;
        SELECT count(*) INTO stray FROM
            (SELECT FROM job_events_default WHERE job_id >= low AND job_id < high LIMIT most_moved + 1) AS counted;
        CONTINUE WHEN stray > most_moved;
        EXECUTE format('CREATE TABLE %I (LIKE job_events INCLUDING ALL)', name);
        EXECUTE format('WITH stray AS (DELETE FROM job_events_default WHERE job_id >= $1 AND job_id < $2 RETURNING *)
            INSERT INTO %I SELECT * FROM stray', name) USING low, high;
        EXECUTE format('ALTER TABLE job_events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, low, high);
    END LOOP;
END
$$;
