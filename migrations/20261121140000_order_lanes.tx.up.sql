SET LOCAL lock_timeout = '5s';

-- Grows with every change of the counters, so that a hint that comes late is
-- known as one.
ALTER TABLE accounts ADD COLUMN version bigint NOT NULL DEFAULT 0;

-- Promoted jobs are those whose lane is above their tier, but for CRITICAL,
-- where a redrive puts them: they queue apart, in lines of their own.
ALTER TABLE account_lanes
    ADD COLUMN promoted boolean NOT NULL DEFAULT false,
    -- The account runs as many jobs as it may: its jobs are nobody's next.
    ADD COLUMN capped   boolean NOT NULL DEFAULT false;
ALTER TABLE account_lanes
    DROP CONSTRAINT account_lanes_pkey,
    ADD PRIMARY KEY (account_id, lane, promoted);

DROP INDEX account_lanes_active;
CREATE INDEX account_lanes_ready ON account_lanes (lane, promoted, virtual_time) WHERE queued > 0 AND NOT capped;
CREATE INDEX account_lanes_times ON account_lanes (lane, promoted, virtual_time);

-- The lane's own time: the least of those accounts that are in the line, or the
-- greatest that was ever reached.
CREATE FUNCTION lane_time(of_lane text, of_promoted boolean) RETURNS float8 LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT virtual_time FROM account_lanes
            WHERE lane = of_lane AND promoted = of_promoted AND queued > 0 AND NOT capped ORDER BY virtual_time LIMIT 1),
        (SELECT virtual_time FROM account_lanes
            WHERE lane = of_lane AND promoted = of_promoted ORDER BY virtual_time DESC LIMIT 1),
        0)
$$;

-- An account at its cap leaves its lines in the transaction that starts its last
-- job, and returns in the one that frees a slot, at the lane's own time: what it
-- could not use is no credit.
CREATE FUNCTION cap_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.running >= NEW.max_running THEN
        UPDATE account_lanes SET capped = true WHERE account_id = NEW.id;
    ELSE
        UPDATE account_lanes SET capped = false,
            virtual_time = CASE WHEN queued > 0 THEN greatest(virtual_time, lane_time(lane, promoted)) ELSE virtual_time END
        WHERE account_id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER accounts_capped AFTER UPDATE OF running, max_running ON accounts
    FOR EACH ROW WHEN ((OLD.running >= OLD.max_running) <> (NEW.running >= NEW.max_running))
    EXECUTE FUNCTION cap_account();

UPDATE account_lanes l SET capped = true FROM accounts a WHERE a.id = l.account_id AND a.running >= a.max_running;

-- How many jobs of its own each lane has started since its last promoted one,
-- counted to nine: then it is a promoted one's turn.
CREATE TABLE lanes (
    lane           text PRIMARY KEY CHECK (lane IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    since_promoted integer NOT NULL DEFAULT 0 CHECK (since_promoted BETWEEN 0 AND 9)
) WITH (fillfactor = 50);

INSERT INTO lanes (lane) VALUES ('CRITICAL'), ('ENTERPRISE'), ('PRO'), ('FREE'), ('BATCH');

-- Queues that an operator paused, or resumed last; no model means all of them.
CREATE TABLE queue_pauses (
    lane       text        NOT NULL REFERENCES lanes,
    model      text        NOT NULL DEFAULT '',
    paused     boolean     NOT NULL,
    changed_by text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lane, model)
);

-- An account's first jobs in a line, of these models, and the virtual times at
-- which they will start.
CREATE FUNCTION lined_up(account uuid, virtual_time float8, of_lane text, of_promoted boolean, of_models text[], most integer)
RETURNS TABLE (id uuid, start float8, queue_order bigint) LANGUAGE sql STABLE AS $$
    SELECT j.id, virtual_time + (sum(j.estimated_gpu_seconds) OVER (ORDER BY j.queue_order) - j.estimated_gpu_seconds) / a.weight,
        j.queue_order
    FROM (
        SELECT j.id, j.estimated_gpu_seconds, j.queue_order FROM jobs j
        WHERE j.status = 'QUEUED' AND j.account_id = account AND j.lane = of_lane
            AND (j.lane <> j.tier AND j.lane <> 'CRITICAL') = of_promoted AND j.model = ANY (of_models)
        ORDER BY j.queue_order LIMIT most) j
    JOIN accounts a ON a.id = account
$$;
