-- The newest pause or resumption of each queue. An empty model means all models of the lane.
CREATE TABLE queue_pauses (
    lane       text        NOT NULL REFERENCES lanes,
    model      text        NOT NULL DEFAULT '',
    paused     boolean     NOT NULL,
    -- The operator's reason for a pause.
    reason     text,
    changed_by text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lane, model)
);

-- Halts: an operator stops all schedules, or all leases, at once. A row is a halt; lifting it
-- deletes the row.
CREATE TABLE halts (
    what      text PRIMARY KEY CHECK (what IN ('SCHEDULES', 'LEASES')),
    halted_by text        NOT NULL,
    reason    text        NOT NULL CHECK (reason <> ''),
    since     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The lanes, and models in them (model '': the whole lane), whose jobs no worker gets: because an
-- operator paused them, or halted all leases, as the last column says. Whatever gives jobs to
-- workers reads it.
CREATE VIEW closed_queues AS
    SELECT lane, model, false AS halted FROM queue_pauses WHERE paused
    UNION ALL
    SELECT l.lane, '', true FROM lanes l JOIN halts h ON h.what = 'LEASES';

-- When queues were closed, by a pause of the queue or a halt of all leases. A pause is no wait of its
-- jobs: it moves none of them into a higher lane, and no figure of waits counts it. So the times
-- are kept as intervals, and subtracted where a wait is measured. Nothing is written to the jobs,
-- however many wait.
CREATE TABLE queue_closures (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane     text        NOT NULL,
    -- Empty for all models of the lane.
    model    text        NOT NULL,
    -- A halt of all leases closes each lane.
    halted   boolean     NOT NULL,
    began_at timestamptz NOT NULL,
    -- 'infinity' while it is closed.
    ended_at timestamptz NOT NULL DEFAULT 'infinity' CHECK (ended_at >= began_at)
);
CREATE UNIQUE INDEX queue_closures_open ON queue_closures (lane, model, halted) WHERE ended_at = 'infinity';
CREATE INDEX queue_closures_of_lane ON queue_closures (lane, ended_at);

-- Triggers write it, so that no way to pause a queue can forget to.
CREATE FUNCTION note_pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR NOT NEW.paused THEN
        UPDATE queue_closures SET ended_at = greatest(began_at, CASE WHEN TG_OP = 'DELETE' THEN clock_timestamp() ELSE NEW.changed_at END)
        WHERE lane = OLD.lane AND model = OLD.model AND NOT halted AND ended_at = 'infinity';
    ELSE
        INSERT INTO queue_closures (lane, model, halted, began_at) VALUES (NEW.lane, NEW.model, false, NEW.changed_at)
        ON CONFLICT (lane, model, halted) WHERE ended_at = 'infinity' DO UPDATE SET began_at = excluded.began_at;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER queue_pauses_noted AFTER INSERT OR UPDATE OR DELETE ON queue_pauses FOR EACH ROW EXECUTE FUNCTION note_pause();

CREATE FUNCTION note_halt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE queue_closures SET ended_at = greatest(began_at, clock_timestamp()) WHERE halted AND ended_at = 'infinity';
    ELSE
        INSERT INTO queue_closures (lane, model, halted, began_at) SELECT lane, '', true, NEW.since FROM lanes
        ON CONFLICT (lane, model, halted) WHERE ended_at = 'infinity' DO UPDATE SET began_at = excluded.began_at;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER halts_noted AFTER INSERT OR UPDATE ON halts FOR EACH ROW WHEN (NEW.what = 'LEASES') EXECUTE FUNCTION note_halt();
CREATE TRIGGER halts_lifted AFTER DELETE ON halts FOR EACH ROW WHEN (OLD.what = 'LEASES') EXECUTE FUNCTION note_halt();

-- Returns for how many seconds of a time the queue of a lane and model was closed. Closures that
-- overlap count once.
CREATE FUNCTION paused_seconds(of_lane text, of_model text, since timestamptz, until timestamptz)
RETURNS float8 LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((
        SELECT sum(extract(epoch FROM upper(r) - lower(r)))::float8
        FROM unnest((
            SELECT range_agg(tstzrange(greatest(began_at, since), least(ended_at, until))) FROM queue_closures
            WHERE lane = of_lane AND model IN ('', of_model) AND ended_at > since AND began_at < until AND ended_at > began_at)) r), 0);
END
$$;

-- Returns since when a job would be queued that has waited so many seconds in the queue, without the
-- times in which the queue was closed.
CREATE FUNCTION waiting_since(of_lane text, of_model text, seconds float8, until timestamptz)
RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    at timestamptz := until;
    rest interval := make_interval(secs => seconds);
    closure record;
BEGIN
    FOR closure IN
        SELECT lower(r) AS began_at, upper(r) AS ended_at
        FROM unnest((
            SELECT range_agg(tstzrange(began_at, least(ended_at, until))) FROM queue_closures
            WHERE lane = of_lane AND model IN ('', of_model) AND began_at < until AND ended_at > began_at)) r
        ORDER BY lower(r) DESC
    LOOP
        EXIT WHEN at - closure.ended_at >= rest;
        rest := rest - (at - closure.ended_at);
        at := closure.began_at;
    END LOOP;
    RETURN at - rest;
END
$$;
