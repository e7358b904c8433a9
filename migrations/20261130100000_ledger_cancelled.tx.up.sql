SET LOCAL lock_timeout = '5s';

-- The attempt ended because its job was cancelled, which says nothing of where it ran. Attempts that ended before count as not cancelled.
ALTER TABLE ledger ADD COLUMN cancelled boolean NOT NULL DEFAULT false;
-- How many of attempts were.
ALTER TABLE ledger_days ADD COLUMN cancelled bigint NOT NULL DEFAULT 0;
ALTER TABLE ledger_user_days ADD COLUMN cancelled bigint NOT NULL DEFAULT 0;
ALTER TABLE ledger_fleet_days ADD COLUMN cancelled bigint NOT NULL DEFAULT 0;
ALTER TABLE ledger_months ADD COLUMN cancelled bigint NOT NULL DEFAULT 0;
ALTER TABLE ledger_user_months ADD COLUMN cancelled bigint NOT NULL DEFAULT 0;

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
        j.status = 'COMPLETED' AND j.draft_steps IS NOT NULL, time_cost(p, NEW.leased_at, useful_until), time_cost(p, useful_until, wasted_until), 0
    INTO entry.account_id, entry.user_id, entry.type, entry.model, entry.pool, entry.provider, entry.region, entry.gpu_type, entry.completed,
        entry.draft, entry.useful_usd, entry.wasted_usd, entry.charged_usd
    FROM jobs j LEFT JOIN pools p ON p.id = worker.pool_id LEFT JOIN provider_accounts a ON a.pool_id = p.id
    WHERE j.id = NEW.job_id;
    IF entry.completed THEN
        entry.charged_usd := entry.useful_usd + (
            SELECT CASE WHEN count(*) = count(l.useful_usd) THEN coalesce(sum(l.useful_usd), 0) END
            FROM ledger l WHERE l.job_id = NEW.job_id AND l.run = NEW.run AND l.model = entry.model AND l.provider_key IS NULL);
    END IF;
    INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed, draft,
        cancelled, useful_seconds, wasted_seconds, useful_usd, wasted_usd, charged_usd)
    VALUES ('ATTEMPT', NEW.ended_at, NEW.id, NEW.job_id, NEW.run, entry.account_id, entry.user_id, entry.type, entry.model, entry.pool,
        entry.provider, entry.region, entry.gpu_type, entry.completed, entry.draft, NEW.status = 'CANCELLED',
        extract(epoch FROM useful_until - NEW.leased_at),
        extract(epoch FROM wasted_until - useful_until), entry.useful_usd, entry.wasted_usd, entry.charged_usd);
    IF worker.provider = 'engines' THEN
        PERFORM enter_fees(NEW, worker, entry);
    END IF;
    RETURN NULL;
END
$$;
