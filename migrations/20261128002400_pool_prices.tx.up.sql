-- What the price source of a pool said last, and what a worker of each pool has cost.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools
    -- The price of one worker for an hour, in US dollars. NULL: the source has said none.
    ADD COLUMN quoted_usd     float8 CHECK (quoted_usd >= 0 AND quoted_usd < 'Infinity'),
    -- The time that the source states for it.
    ADD COLUMN quoted_at      timestamptz,
    -- From when it is stale, and from when it no longer counts. NULL: never.
    ADD COLUMN quote_stale_at timestamptz,
    ADD COLUMN quote_ends_at  timestamptz,
    -- What the source knows of the hours to come: a list of {from, pricePerHourUsd}, in order.
    ADD COLUMN quote_ahead    jsonb,
    -- Why the source gave no price when it was last read.
    ADD COLUMN quote_problem  text NOT NULL DEFAULT '',
    -- Jobs of BATCH boot no workers of the pool now: they wait for cheaper ones.
    ADD COLUMN batch_waits    boolean NOT NULL DEFAULT false;

-- pool_price returns what a worker of a pool costs per hour now, in US dollars.
CREATE FUNCTION pool_price(pool pools) RETURNS float8 LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN pool.quoted_usd IS NOT NULL AND (pool.quote_ends_at IS NULL OR pool.quote_ends_at > now())
        THEN pool.quoted_usd ELSE pool.price_per_hour_usd END
$$;

-- What a worker of a pool costs since a time, until the next row.
CREATE TABLE pool_prices (
    pool_id uuid        NOT NULL REFERENCES pools ON DELETE CASCADE,
    since   timestamptz NOT NULL,
    usd     float8      NOT NULL,
    PRIMARY KEY (pool_id, since)
);
