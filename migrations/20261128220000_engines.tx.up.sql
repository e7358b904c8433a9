-- An engine is a server that renders, which an agent drives over HTTP. A pool of engines lists their
-- addresses and their kind.
SET LOCAL lock_timeout = '5s';

ALTER TABLE pools
    ADD COLUMN engine_kind       text    NOT NULL DEFAULT '',
    -- The addresses as an operator wrote them, in order.
    ADD COLUMN engines           text[]  NOT NULL DEFAULT '{}',
    -- The pool has all models of the catalogue whose runtime is the kind of its engines.
    ADD COLUMN follows_catalogue boolean NOT NULL DEFAULT false;

-- One row for each address in pools.engines, written with it: what its agent says of it, and what an
-- operator does with it.
CREATE TABLE engines (
    url         text        PRIMARY KEY,
    -- The id of its worker's machine.
    instance    text        NOT NULL UNIQUE,
    pool_id     uuid        NOT NULL REFERENCES pools,
    -- UNKNOWN until an agent reports it.
    state       text        NOT NULL DEFAULT 'UNKNOWN'
        CHECK (state IN ('UNKNOWN', 'READY', 'BUSY', 'DRAINING', 'UNREACHABLE', 'FAILED')),
    reason      text        NOT NULL DEFAULT '',
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    version     text        NOT NULL DEFAULT '',
    -- What the engine tells of its GPU.
    gpu_name    text        NOT NULL DEFAULT '',
    gpu_memory_bytes      bigint,
    gpu_memory_free_bytes bigint,
    -- A list of {model, missing}: the models that it cannot run, and why.
    lacks       jsonb       NOT NULL DEFAULT '[]',
    -- When an operator took it out of service, and who did.
    held_at     timestamptz,
    held_by     text        NOT NULL DEFAULT '',
    reported_at timestamptz
);

CREATE INDEX engines_pool_id ON engines (pool_id);

-- engine_state returns the state that people see. A report counts for a minute.
CREATE FUNCTION engine_state(engine engines) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN engine.held_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM workers WHERE provider = 'engines' AND provider_instance_id = engine.instance AND slot = 0 AND ended_at IS NULL)
            THEN 'HELD'
        WHEN engine.reported_at > clock_timestamp() - interval '60 seconds' THEN engine.state
        ELSE 'UNKNOWN'
    END
$$;
