CREATE TABLE lanes (
    lane           text PRIMARY KEY CHECK (lane IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    -- The jobs of the lane's own tier that started since its last promoted job. After nine, a promoted job is next.
    since_promoted integer NOT NULL DEFAULT 0 CHECK (since_promoted BETWEEN 0 AND 9)
) WITH (fillfactor = 50);

INSERT INTO lanes (lane) VALUES ('CRITICAL'), ('ENTERPRISE'), ('PRO'), ('FREE'), ('BATCH');

-- Start-time fair queueing: a lane serves its accounts in the order of virtual_time. Each
-- lease advances it by the job's estimated GPU seconds over the account's weight.
CREATE TABLE account_lanes (
    account_id   uuid    NOT NULL REFERENCES accounts,
    lane         text    NOT NULL CHECK (lane IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    -- A job is promoted if its lane is above its tier. Promoted jobs queue apart, except in
    -- CRITICAL, where a redrive puts jobs.
    promoted     boolean NOT NULL DEFAULT false,
    virtual_time float8  NOT NULL DEFAULT 0,
    queued       integer NOT NULL DEFAULT 0 CHECK (queued >= 0),
    -- The account is at its running limit: none of its jobs can be next.
    capped       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (account_id, lane, promoted)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The accounts whose turn it is, for claims. models/queue.go repeats this condition word for word.
CREATE INDEX account_lanes_ready ON account_lanes (lane, promoted, virtual_time) WHERE queued > 0 AND NOT capped;
-- The greatest virtual time of a lane, for lane_time.
CREATE INDEX account_lanes_times ON account_lanes (lane, promoted, virtual_time);

-- Returns the virtual time of a lane: the least of the accounts that can be next, or else
-- the greatest that any account ever reached.
--
-- It is plpgsql because PostgreSQL plans such a function once for each connection. It plans
-- one in SQL for each statement that calls it, which takes longer than a submit's writes.
CREATE FUNCTION lane_time(of_lane text, of_promoted boolean) RETURNS float8 LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        (SELECT virtual_time FROM account_lanes
            WHERE lane = of_lane AND promoted = of_promoted AND queued > 0 AND NOT capped ORDER BY virtual_time LIMIT 1),
        (SELECT virtual_time FROM account_lanes
            WHERE lane = of_lane AND promoted = of_promoted ORDER BY virtual_time DESC LIMIT 1),
        0);
END
$$;

-- An account leaves its lanes in the transaction that starts the last job that its running
-- limit allows. It returns in the transaction that frees a slot, at the lane's virtual time:
-- an account earns no credit while it is at its limit.
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
