-- A pool of a hosted provider, such as Runway, has an account there. Its limits hold for all machines together,
-- and PostgreSQL alone decides about them: a job or a call takes them with the account's row locked.
SET LOCAL lock_timeout = '5s';

-- Two accounts of one provider have the same address.
ALTER TABLE engines DROP CONSTRAINT engines_pkey, ADD PRIMARY KEY (pool_id, url);
DROP INDEX engines_pool_id;

CREATE TABLE provider_accounts (
    pool_id      uuid        PRIMARY KEY REFERENCES pools,
    -- The limits: jobs at a time, and calls in a minute.
    concurrent   integer     NOT NULL CHECK (concurrent BETWEEN 0 AND 10000),
    per_minute   integer     NOT NULL CHECK (per_minute BETWEEN 1 AND 100000),
    -- What becomes of a job whose submit was not answered, and how long it waits for a decision.
    on_unknown   text        NOT NULL DEFAULT 'WAIT' CHECK (on_unknown IN ('WAIT', 'GIVE_UP', 'PAY_AGAIN')),
    unknown_wait interval    NOT NULL DEFAULT '24 hours',
    -- When the calls of the last minute were made.
    calls        timestamptz[] NOT NULL DEFAULT '{}',
    -- The provider asked to wait.
    paused_until timestamptz,
    -- The circuit: how many calls failed in a row, and until when nobody calls because of that.
    failures     integer     NOT NULL DEFAULT 0,
    open_since   timestamptz,
    open_until   timestamptz,
    reason       text        NOT NULL DEFAULT ''
);

-- A slot is the place of one job at the provider. It is the job's, not its worker's: what the provider does
-- for a job goes on when a worker is lost.
CREATE TABLE provider_slots (
    job_id     uuid        PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    pool_id    uuid        NOT NULL REFERENCES provider_accounts ON DELETE CASCADE,
    taken_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- NULL while a worker has the job. Afterwards, when nobody knows whether the provider still works on it,
    -- the end of the time for which the slot is kept.
    expires_at timestamptz
);
CREATE INDEX provider_slots_pool_id ON provider_slots (pool_id);

-- What the provider answered that was no success, counted.
CREATE TABLE provider_errors (
    pool_id uuid        NOT NULL REFERENCES provider_accounts ON DELETE CASCADE,
    status  integer     NOT NULL,
    code    text        NOT NULL,
    means   text        NOT NULL,
    known   boolean     NOT NULL,
    count   bigint      NOT NULL DEFAULT 1,
    last_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The provider's own words of the last time.
    text    text        NOT NULL DEFAULT '',
    PRIMARY KEY (pool_id, status, code, means)
);

-- A worker of a hosted provider has the name of its engine and, after a #, that of its agent.
CREATE OR REPLACE FUNCTION engine_state(engine engines) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN engine.held_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM workers WHERE provider = 'engines' AND pool_id = engine.pool_id
                AND split_part(provider_instance_id, '#', 1) = engine.instance AND ended_at IS NULL)
            THEN 'HELD'
        WHEN engine.reported_at > clock_timestamp() - interval '60 seconds' THEN engine.state
        ELSE 'UNKNOWN'
    END
$$;
