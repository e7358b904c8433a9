SET LOCAL lock_timeout = '5s';

-- The machine whose signed identity registered the worker, as project/zone/name. NULL for
-- workers that a key enrolled.
ALTER TABLE workers ADD COLUMN machine text;

-- The SHA-256 of the identity tokens that registered a worker, until they expire: each token is
-- good for one registration.
CREATE TABLE used_identities (
    hash       bytea       PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX used_identities_expired ON used_identities (expires_at);
