SET LOCAL lock_timeout = '5s';

-- What each attempt cost. A row is written by the transaction that ends the attempt, and is never changed: what
-- turns out later is a second row with the difference. The rows stay when the job is deleted, so they repeat what
-- reports group by, and refer to nothing.
CREATE TABLE ledger (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind           text             NOT NULL CHECK (kind IN ('ATTEMPT', 'CORRECTION')),
    -- When the attempt ended, or when the correction was made.
    at             timestamptz      NOT NULL,
    attempt_id     uuid             NOT NULL,
    job_id         uuid             NOT NULL,
    run            integer          NOT NULL,
    account_id     uuid             NOT NULL,
    user_id        text,
    type           text             NOT NULL,
    model          text             NOT NULL,
    -- Empty for a worker without a pool.
    pool           text             NOT NULL,
    provider       text             NOT NULL,
    region         text             NOT NULL,
    gpu_type       text             NOT NULL,
    -- The attempt completed its job.
    completed      boolean          NOT NULL,
    -- The time for which the worker held the job is the sum of both. Wasted is what no result and no checkpoint
    -- kept, and the time after the worker's last sign of life.
    useful_seconds float8           NOT NULL,
    wasted_seconds float8           NOT NULL,
    -- At each time at the price that the pool had then. NULL: the pool has no price.
    useful_usd     numeric(20, 10),
    wasted_usd     numeric(20, 10),
    -- What the account pays, written with the attempt that completes the job: the useful part of all attempts of the
    -- run with that model. Another run or model began anew. NULL: the price of a part is unknown.
    charged_usd    numeric(20, 10) DEFAULT 0
);

-- An attempt is entered once.
CREATE UNIQUE INDEX ledger_attempts ON ledger (attempt_id) WHERE kind = 'ATTEMPT';
CREATE INDEX ledger_of_job ON ledger (job_id);
-- Rows are written in the order of their times, nearly.
CREATE INDEX ledger_at ON ledger USING brin (at) WITH (pages_per_range = 16, autosummarize = on);

-- The sums of the days (UTC) that are over, so that a report of a year reads few rows. Unknown amounts are left out
-- of sums: unpriced counts their rows. Users have a table of their own, since there can be as many as jobs.
CREATE TABLE ledger_days (
    account_id     uuid             NOT NULL,
    day            date             NOT NULL,
    type           text             NOT NULL,
    model          text             NOT NULL,
    pool           text             NOT NULL,
    provider       text             NOT NULL,
    region         text             NOT NULL,
    gpu_type       text             NOT NULL,
    attempts       bigint           NOT NULL,
    completed      bigint           NOT NULL,
    unpriced       bigint           NOT NULL,
    useful_seconds float8           NOT NULL,
    wasted_seconds float8           NOT NULL,
    useful_usd     numeric(20, 10)  NOT NULL,
    wasted_usd     numeric(20, 10)  NOT NULL,
    charged_usd    numeric(20, 10)  NOT NULL,
    PRIMARY KEY (account_id, day, type, model, pool, provider, region, gpu_type)
);
CREATE INDEX ledger_days_by_day ON ledger_days (day);

CREATE TABLE ledger_user_days (
    account_id     uuid             NOT NULL,
    day            date             NOT NULL,
    user_id        text             NOT NULL,
    attempts       bigint           NOT NULL,
    completed      bigint           NOT NULL,
    unpriced       bigint           NOT NULL,
    useful_seconds float8           NOT NULL,
    wasted_seconds float8           NOT NULL,
    useful_usd     numeric(20, 10)  NOT NULL,
    wasted_usd     numeric(20, 10)  NOT NULL,
    charged_usd    numeric(20, 10)  NOT NULL,
    PRIMARY KEY (account_id, day, user_id)
);
CREATE INDEX ledger_user_days_by_day ON ledger_user_days (day);

-- The first time (a midnight) whose rows the sums do not have yet: one row.
CREATE TABLE ledger_closing (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    until timestamptz NOT NULL
);
INSERT INTO ledger_closing (until) VALUES (date_trunc('day', now(), 'UTC'));

-- time_cost returns what a worker of a pool costs from one time to another, in US dollars, at each time at the price
-- of that time: before the first that is known, that. It returns NULL if the pool had no price for a part of it.
CREATE FUNCTION time_cost(pool pools, since timestamptz, until timestamptz) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE
    held timestamptz := (SELECT max(p.since) FROM pool_prices p WHERE p.pool_id = pool.id AND p.since <= time_cost.since);
BEGIN
    RETURN (
        SELECT CASE WHEN min(x.usd) > 0 THEN
            sum(x.usd * greatest(extract(epoch FROM least(x.until, time_cost.until) - greatest(x.since, time_cost.since)), 0)) / 3600 END
        FROM (
            SELECT CASE WHEN lag(known.since) OVER w IS NULL THEN '-infinity' ELSE known.since END AS since,
                coalesce(lead(known.since) OVER w, 'infinity') AS until, known.usd::numeric AS usd
            FROM (
                SELECT p.since, p.usd FROM pool_prices p
                WHERE p.pool_id = pool.id AND (p.since < time_cost.until AND p.since >= coalesce(held, '-infinity')
                    OR held IS NULL AND p.since = (SELECT min(f.since) FROM pool_prices f WHERE f.pool_id = pool.id))
                UNION ALL
                SELECT '-infinity', pool_price(pool) WHERE NOT EXISTS (SELECT FROM pool_prices p WHERE p.pool_id = pool.id)) known
            WINDOW w AS (ORDER BY known.since)) x);
END
$$;

-- enter_attempt enters an attempt that has ended. It runs after the statement that ended it, so that it sees the job's
-- new state. A fallback to another model has been written by then: its route says which model the attempt ran.
CREATE FUNCTION enter_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    useful_until timestamptz := NEW.leased_at + make_interval(secs => NEW.gpu_seconds - NEW.wasted_gpu_seconds);
    wasted_until timestamptz := greatest(NEW.ended_at, useful_until);
    entry        ledger;
BEGIN
    SELECT j.account_id, j.user_id, j.type, coalesce(
            (SELECT r->>'from' FROM jsonb_array_elements(j.routes) r WHERE date_trunc('microseconds', (r->>'at')::timestamptz) >= NEW.ended_at
                ORDER BY (r->>'at')::timestamptz LIMIT 1), j.model),
        coalesce(p.name, ''), w.provider, coalesce(p.region, w.region), coalesce(p.gpu_type, w.gpu_type), j.status = 'COMPLETED',
        time_cost(p, NEW.leased_at, useful_until), time_cost(p, useful_until, wasted_until), 0
    INTO entry.account_id, entry.user_id, entry.type, entry.model, entry.pool, entry.provider, entry.region, entry.gpu_type, entry.completed,
        entry.useful_usd, entry.wasted_usd, entry.charged_usd
    FROM jobs j JOIN workers w ON w.id = NEW.worker_id LEFT JOIN pools p ON p.id = w.pool_id
    WHERE j.id = NEW.job_id;
    IF entry.completed THEN
        entry.charged_usd := entry.useful_usd + (
            SELECT CASE WHEN count(*) = count(l.useful_usd) THEN coalesce(sum(l.useful_usd), 0) END
            FROM ledger l WHERE l.job_id = NEW.job_id AND l.run = NEW.run AND l.model = entry.model);
    END IF;
    INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
        useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
    VALUES ('ATTEMPT', NEW.ended_at, NEW.id, NEW.job_id, NEW.run, entry.account_id, entry.user_id, entry.type, entry.model, entry.pool,
        entry.provider, entry.region, entry.gpu_type, entry.completed, extract(epoch FROM useful_until - NEW.leased_at),
        extract(epoch FROM wasted_until - useful_until), entry.useful_usd, entry.wasted_usd, entry.charged_usd);
    RETURN NULL;
END
$$;

-- correct_attempt moves time of an attempt, and what it cost, from useful to wasted: it turned out later that nothing
-- of it was kept. What the account was charged stays.
CREATE FUNCTION correct_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved float8 := NEW.wasted_gpu_seconds - OLD.wasted_gpu_seconds;
BEGIN
    INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
        useful_seconds, wasted_seconds, useful_usd, wasted_usd)
    SELECT 'CORRECTION', clock_timestamp(), e.attempt_id, e.job_id, e.run, e.account_id, e.user_id, e.type, e.model, e.pool, e.provider,
        e.region, e.gpu_type, false, -moved, moved, -cost.usd, cost.usd
    FROM ledger e CROSS JOIN LATERAL (
        SELECT coalesce(e.useful_usd / nullif(e.useful_seconds, 0)::numeric, e.wasted_usd / nullif(e.wasted_seconds, 0)::numeric) * moved::numeric
            AS usd) cost
    WHERE e.attempt_id = NEW.id AND e.kind = 'ATTEMPT';
    RETURN NULL;
END
$$;

CREATE TRIGGER job_attempts_entered AFTER UPDATE ON job_attempts FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION enter_attempt();
CREATE TRIGGER job_attempts_corrected AFTER UPDATE ON job_attempts FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL AND OLD.wasted_gpu_seconds <> NEW.wasted_gpu_seconds) EXECUTE FUNCTION correct_attempt();
