-- What happened to a job. seq comes from the counter on the job's row. The partitions are ranges
-- of job_id: a UUIDv7, hence by time of submit. Rows are only appended, and go with their
-- month's partition, so that autovacuum needs no settings here.
CREATE TABLE job_events (
    job_id     uuid        NOT NULL,
    seq        integer     NOT NULL CHECK (seq >= 1),
    run        integer     NOT NULL,
    attempt_id uuid,
    type       text        NOT NULL,
    payload    jsonb       NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, seq)
) PARTITION BY RANGE (job_id);

-- One terminal event per run.
CREATE UNIQUE INDEX job_events_one_end_per_run ON job_events (job_id, run) WHERE type IN ('COMPLETED', 'FAILED', 'CANCELLED');
-- The events of the last seconds, for subscribers to status changes. Events are appended in
-- the order of time: a summary per range of blocks is enough, and costs a write almost nothing.
CREATE INDEX job_events_recent ON job_events USING brin (created_at) WITH (pages_per_range = 16, autosummarize = on);

CREATE TABLE job_events_default PARTITION OF job_events DEFAULT;

-- Reads of job_events are by its key or of the last moments, and none by payload. A third of
-- the usual samples is enough to plan them, and takes far less time in each ANALYZE.
CREATE FUNCTION sample_fewer_events(partition regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s
        ALTER job_id SET STATISTICS 10, ALTER seq SET STATISTICS 10, ALTER run SET STATISTICS 10,
        ALTER type SET STATISTICS 10, ALTER created_at SET STATISTICS 30,
        ALTER attempt_id SET STATISTICS 0, ALTER payload SET STATISTICS 0', partition);
END
$$;

SELECT sample_fewer_events('job_events_default');

-- Returns the smallest UUIDv7 of a moment.
CREATE FUNCTION uuid7_floor(at timestamptz) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;

-- Makes the monthly partitions of job_events, from this month to that many months ahead. Any
-- number of callers can run it at any time.
--
-- It attaches a finished table, which blocks only users of the default partition. A table that
-- is created as a partition blocks all users of job_events. Events of the month that the default
-- partition holds (of a process whose clock was wrong) move to the new table. If they are too
-- many to move while others wait, the month stays in the default partition.
CREATE FUNCTION make_job_event_partitions(months_ahead integer) RETURNS void LANGUAGE plpgsql AS $$
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

SELECT make_job_event_partitions(3);
