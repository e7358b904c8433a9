-- Reads of job_events are by its key, or of the last moments, and none by what a payload
-- has in it: a third of the usual samples is enough to plan them. To take the usual ones
-- kept a processor busy for 0.1 s, in every minute of a busy day.
SET LOCAL lock_timeout = '5s';

CREATE FUNCTION sample_fewer_events(partition regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s
        ALTER job_id SET STATISTICS 10, ALTER seq SET STATISTICS 10, ALTER run SET STATISTICS 10,
        ALTER type SET STATISTICS 10, ALTER created_at SET STATISTICS 30,
        ALTER attempt_id SET STATISTICS 0, ALTER payload SET STATISTICS 0', partition);
END
$$;

SELECT sample_fewer_events(inhrelid) FROM pg_inherits WHERE inhparent = 'job_events'::regclass;

-- As before, and a new partition is sampled as the others are: LIKE does not copy that.
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
        PERFORM sample_fewer_events(name::regclass);
        EXECUTE format('WITH stray AS (DELETE FROM job_events_default WHERE job_id >= $1 AND job_id < $2 RETURNING *)
            INSERT INTO %I SELECT * FROM stray', name) USING low, high;
        EXECUTE format('ALTER TABLE job_events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, low, high);
    END LOOP;
END
$$;
