-- What is known of a provider's room. grow_by is how many machines the next request asks for at
-- most, or 0 if that is not limited. refused_at is when the newest refusal was recorded.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools
    ADD COLUMN grow_by integer NOT NULL DEFAULT 0 CHECK (grow_by >= 0),
    ADD COLUMN refused_at timestamptz;
