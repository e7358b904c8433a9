SET LOCAL lock_timeout = '5s';

-- attempt_after returns the end of an attempt that nobody paid for: that after its machine was gone, at which its lease had
-- not expired yet. The time that the worker reported is never a part of it.
CREATE FUNCTION attempt_after(attempt job_attempts, pool pools, gone timestamptz, OUT seconds float8, OUT usd numeric) LANGUAGE plpgsql STABLE AS $$
DECLARE
    since timestamptz := attempt.ended_at;
BEGIN
    IF gone IS NOT NULL THEN
        since := least(greatest(gone, attempt.leased_at + make_interval(secs => attempt.gpu_seconds)), attempt.ended_at);
    END IF;
    seconds := extract(epoch FROM attempt.ended_at - since);
    usd := time_cost(pool, since, attempt.ended_at);
END
$$;

-- correct_gone takes the time after the end of a machine from the wasted time of its attempts. When a machine was gone becomes
-- known after its workers have ended. It is taken back if the provider lists the machine again.
CREATE FUNCTION correct_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger (kind, at, attempt_id, job_id, run, account_id, user_id, type, model, pool, provider, region, gpu_type, completed,
        useful_seconds, wasted_seconds, useful_usd, wasted_usd)
    SELECT 'CORRECTION', clock_timestamp(), e.attempt_id, e.job_id, e.run, e.account_id, e.user_id, e.type, e.model, e.pool, e.provider,
        e.region, e.gpu_type, false, 0, before.seconds - after.seconds, 0,
        CASE WHEN e.wasted_usd IS NULL OR after.usd IS NULL THEN 0 ELSE before.usd - after.usd END
    FROM workers w JOIN pools p ON p.id = w.pool_id
    CROSS JOIN LATERAL (SELECT * FROM job_attempts a WHERE a.worker_id = w.id AND a.ended_at IS NOT NULL ORDER BY a.id DESC NULLS LAST LIMIT 3) a
    JOIN ledger e ON e.attempt_id = a.id AND e.kind = 'ATTEMPT'
    -- What was taken before is what the ledger says: the row of a machine can be younger than its end.
    CROSS JOIN LATERAL (
        SELECT coalesce(-sum(c.wasted_seconds), 0) AS seconds, coalesce(-sum(c.wasted_usd), 0) AS usd
        FROM ledger c
        WHERE c.job_id = a.job_id AND c.attempt_id = a.id AND c.kind = 'CORRECTION' AND c.useful_seconds = 0 AND c.provider_key IS NULL) before
    CROSS JOIN LATERAL attempt_after(a, p, NEW.billed_until) after
    WHERE w.provider = NEW.provider AND w.provider_instance_id = NEW.instance_id AND abs(before.seconds - after.seconds) > 0.000001;
    RETURN NULL;
END
$$;

CREATE TRIGGER machines_gone AFTER UPDATE ON machines FOR EACH ROW WHEN (OLD.billed_until IS DISTINCT FROM NEW.billed_until)
    EXECUTE FUNCTION correct_gone();
