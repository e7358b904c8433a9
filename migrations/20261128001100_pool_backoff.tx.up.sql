-- How long the scaler leaves a pool alone after its provider refused machines, and why.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools
    ADD COLUMN backoff_until  timestamptz,
    ADD COLUMN backoff_class  text    NOT NULL DEFAULT '',
    ADD COLUMN backoff_reason text    NOT NULL DEFAULT '',
    -- How many creations in a row the provider refused.
    ADD COLUMN refusals       integer NOT NULL DEFAULT 0 CHECK (refusals >= 0);
