-- Pools that operators write. A pool that was deleted stays as a row: workers and attempts of
-- the past name it.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools
    ADD COLUMN zones              text[]  NOT NULL DEFAULT '{}',
    ADD COLUMN machine_type       text    NOT NULL DEFAULT '',
    ADD COLUMN warm_workers       integer NOT NULL DEFAULT 0   CHECK (warm_workers >= 0),
    ADD COLUMN boot_limit_seconds integer NOT NULL DEFAULT 600 CHECK (boot_limit_seconds > 0),
    ADD COLUMN price_per_hour_usd float8  NOT NULL DEFAULT 0   CHECK (price_per_hour_usd >= 0 AND price_per_hour_usd < 'Infinity'),
    ADD COLUMN active_hours       text    NOT NULL DEFAULT '',
    ADD COLUMN settings           jsonb   NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(settings) = 'object'),
    ADD COLUMN paused_at          timestamptz,
    ADD COLUMN deleted_at         timestamptz,
    DROP CONSTRAINT pools_name_key;
CREATE UNIQUE INDEX pools_name ON pools (name) WHERE deleted_at IS NULL;
