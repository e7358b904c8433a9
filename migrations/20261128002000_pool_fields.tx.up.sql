-- What else operators write of a pool.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools
    ADD COLUMN accounts                text[]  NOT NULL DEFAULT '{}',
    ADD COLUMN yielding_tiers          text[]  NOT NULL DEFAULT '{BATCH}',
    ADD COLUMN workers_per_machine     integer NOT NULL DEFAULT 1 CHECK (workers_per_machine BETWEEN 1 AND 64),
    ADD COLUMN gpus_per_worker         integer NOT NULL DEFAULT 1 CHECK (gpus_per_worker BETWEEN 1 AND 64),
    ADD COLUMN price_source            text    NOT NULL DEFAULT '',
    ADD COLUMN max_price_per_hour_usd  float8  NOT NULL DEFAULT 0 CHECK (max_price_per_hour_usd >= 0 AND max_price_per_hour_usd < 'Infinity'),
    ADD COLUMN hold_on_failure         boolean NOT NULL DEFAULT false;
