SET LOCAL lock_timeout = '5s';

-- What hosted providers charge, in US dollars. The rules of a provider's model with the same time are a version, which
-- holds from that time until the next. A version is never changed.
CREATE TABLE provider_prices (
    provider       text            NOT NULL,
    -- The provider's own name of the model, or Reelay's for a provider whose address names the model.
    model          text            NOT NULL,
    since          timestamptz     NOT NULL,
    -- What a video must have for the rule to hold. NULL means any.
    resolution     text            CHECK (resolution = lower(resolution)),
    audio          boolean,
    per_second_usd numeric(20, 10) NOT NULL CHECK (per_second_usd BETWEEN 0 AND 1000000),
    per_call_usd   numeric(20, 10) NOT NULL CHECK (per_call_usd BETWEEN 0 AND 1000000),
    entered_at     timestamptz     NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (provider, model, since, resolution, audio)
);

CREATE FUNCTION refuse_price_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'prices are not changed: add a version with a later time';
END
$$;
CREATE TRIGGER provider_prices_stay BEFORE UPDATE OR DELETE ON provider_prices FOR EACH STATEMENT EXECUTE FUNCTION refuse_price_change();

-- provider_fee returns what a provider charges for a video that was asked for at a time. The most specific rule holds; the
-- resolution counts before the audio. It returns NULL if the price, or what it depends on, is unknown.
CREATE FUNCTION provider_fee(provider text, model text, at timestamptz, seconds numeric, resolution text, audio boolean) RETURNS numeric
LANGUAGE sql STABLE AS $$
    SELECT round(p.per_call_usd + CASE WHEN p.per_second_usd = 0 THEN 0 ELSE p.per_second_usd * provider_fee.seconds END, 10)
    FROM provider_prices p
    WHERE p.provider = provider_fee.provider AND p.model = provider_fee.model
        AND p.since = (SELECT max(v.since) FROM provider_prices v
            WHERE v.provider = provider_fee.provider AND v.model = provider_fee.model AND v.since <= provider_fee.at)
        AND (p.resolution IS NULL OR p.resolution = lower(provider_fee.resolution)) AND (p.audio IS NULL OR p.audio = provider_fee.audio)
    ORDER BY p.resolution IS NULL, p.audio IS NULL LIMIT 1
$$;

-- What was asked of hosted providers: a row per submit, stored before it is made, and by whatever attempt adopts it.
CREATE TABLE provider_jobs (
    job_id       uuid        NOT NULL REFERENCES jobs ON DELETE CASCADE,
    -- Reelay's own id of the submit, which its handle has.
    key          uuid        NOT NULL,
    pool_id      uuid        NOT NULL,
    provider     text        NOT NULL,
    model        text        NOT NULL,
    -- What the provider bills by; NULL if the request does not say it.
    seconds      numeric(10, 6) CHECK (seconds BETWEEN 0 AND 3600),
    resolution   text,
    audio        boolean,
    -- The provider's id of the job, once it has answered.
    ref          text,
    submitted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When an attempt saw that the video is made, which is what providers charge for.
    made_at      timestamptz,
    PRIMARY KEY (job_id, key)
);

-- A fee is entered once for each provider job, in the transaction that ends the attempt which saw its video made. It is
-- wasted until its video completes the job: then it is entered as useful, or corrected to that.
ALTER TABLE ledger DROP CONSTRAINT ledger_kind_check,
    ADD CONSTRAINT ledger_kind_check CHECK (kind IN ('ATTEMPT', 'CORRECTION', 'FEE')) NOT VALID, -- it does not read the whole ledger
    -- Of a fee, and of its correction.
    ADD COLUMN provider_key uuid,
    ADD COLUMN provider_ref text,
    ADD CONSTRAINT ledger_fee_check CHECK (kind <> 'FEE' OR provider_key IS NOT NULL) NOT VALID;
CREATE UNIQUE INDEX ledger_fees ON ledger (job_id, provider_key) WHERE kind = 'FEE';

-- time_cost returns what a worker of a pool costs from one time to another, in US dollars, at each time at the price
-- of that time: before the first that is known, that. It returns NULL if the pool had no price for a part of it. The
-- price 0 is none, but for pools of hosted providers, where it is the usual one: the provider's fee is the cost.
CREATE OR REPLACE FUNCTION time_cost(pool pools, since timestamptz, until timestamptz) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE
    held   timestamptz := (SELECT max(p.since) FROM pool_prices p WHERE p.pool_id = pool.id AND p.since <= time_cost.since);
    hosted boolean := pool.provider = 'engines' AND EXISTS (SELECT FROM provider_accounts a WHERE a.pool_id = pool.id);
BEGIN
    RETURN (
        SELECT CASE WHEN min(x.usd) > 0 OR hosted THEN
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

-- enter_fees enters the fees of the provider jobs whose videos an attempt saw made. entry is that of the attempt. A video
-- is made if the worker said so, if it completed the job, or if it is defective.
CREATE FUNCTION enter_fees(attempt job_attempts, worker workers, entry ledger) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest uuid := (SELECT p.key FROM provider_jobs p WHERE p.job_id = attempt.job_id AND p.pool_id = worker.pool_id
        ORDER BY p.submitted_at DESC LIMIT 1);
    made   record;
BEGIN
    FOR made IN
        SELECT p.key, p.ref, p.provider, provider_fee(p.provider, p.model, p.submitted_at, p.seconds, p.resolution, p.audio) AS usd,
            entry.completed AND p.key = newest AS delivered
        FROM provider_jobs p
        WHERE p.job_id = attempt.job_id AND p.pool_id = worker.pool_id AND (p.made_at IS NOT NULL
            OR p.key = newest AND (entry.completed OR attempt.failure_class = 'DEFECTIVE_RESULT'))
        ORDER BY p.submitted_at
    LOOP
        INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
            useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd, provider_key, provider_ref)
        VALUES ('FEE', attempt.ended_at, attempt.id, attempt.job_id, attempt.run, entry.account_id, entry.user_id, entry.type, entry.model,
            entry.pool, made.provider, entry.region, entry.gpu_type, false, 0, 0, CASE WHEN made.delivered THEN made.usd ELSE 0 END,
            CASE WHEN made.delivered THEN 0 ELSE made.usd END, CASE WHEN made.delivered THEN made.usd ELSE 0 END, made.key, made.ref)
        ON CONFLICT DO NOTHING;
        IF NOT FOUND AND made.delivered THEN
            INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type,
                completed, useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd, provider_key, provider_ref)
            SELECT 'CORRECTION', attempt.ended_at, f.attempt_id, f.job_id, f.run, f.account_id, f.user_id, f.type, f.model, f.pool, f.provider,
                f.region, f.gpu_type, false, 0, 0, f.wasted_usd, -f.wasted_usd, f.wasted_usd, f.provider_key, f.provider_ref
            FROM ledger f WHERE f.job_id = attempt.job_id AND f.provider_key = made.key AND f.kind = 'FEE';
        END IF;
    END LOOP;
END
$$;

-- enter_attempt enters an attempt that has ended, and the fees of its provider. It runs after the statement that ended it,
-- so that it sees the job's new state. A fallback to another model has been written by then: its route says which model the
-- attempt ran.
CREATE OR REPLACE FUNCTION enter_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    useful_until timestamptz := NEW.leased_at + make_interval(secs => NEW.gpu_seconds - NEW.wasted_gpu_seconds);
    wasted_until timestamptz := greatest(NEW.ended_at, useful_until);
    entry        ledger;
    worker       workers;
BEGIN
    SELECT * INTO worker FROM workers w WHERE w.id = NEW.worker_id;
    SELECT j.account_id, j.user_id, j.type, coalesce(
            (SELECT r->>'from' FROM jsonb_array_elements(j.routes) r WHERE date_trunc('microseconds', (r->>'at')::timestamptz) >= NEW.ended_at
                ORDER BY (r->>'at')::timestamptz LIMIT 1), j.model),
        coalesce(p.name, ''), CASE WHEN a.pool_id IS NULL THEN worker.provider ELSE p.engine_kind END, coalesce(p.region, worker.region),
        coalesce(p.gpu_type, worker.gpu_type), j.status = 'COMPLETED',
        time_cost(p, NEW.leased_at, useful_until), time_cost(p, useful_until, wasted_until), 0
    INTO entry.account_id, entry.user_id, entry.type, entry.model, entry.pool, entry.provider, entry.region, entry.gpu_type, entry.completed,
        entry.useful_usd, entry.wasted_usd, entry.charged_usd
    FROM jobs j LEFT JOIN pools p ON p.id = worker.pool_id LEFT JOIN provider_accounts a ON a.pool_id = p.id
    WHERE j.id = NEW.job_id;
    IF entry.completed THEN
        entry.charged_usd := entry.useful_usd + (
            SELECT CASE WHEN count(*) = count(l.useful_usd) THEN coalesce(sum(l.useful_usd), 0) END
            FROM ledger l WHERE l.job_id = NEW.job_id AND l.run = NEW.run AND l.model = entry.model AND l.provider_key IS NULL);
    END IF;
    INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
        useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
    VALUES ('ATTEMPT', NEW.ended_at, NEW.id, NEW.job_id, NEW.run, entry.account_id, entry.user_id, entry.type, entry.model, entry.pool,
        entry.provider, entry.region, entry.gpu_type, entry.completed, extract(epoch FROM useful_until - NEW.leased_at),
        extract(epoch FROM wasted_until - useful_until), entry.useful_usd, entry.wasted_usd, entry.charged_usd);
    IF worker.provider = 'engines' THEN
        PERFORM enter_fees(NEW, worker, entry);
    END IF;
    RETURN NULL;
END
$$;
