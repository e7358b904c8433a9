CREATE TABLE accounts (
    id                 uuid PRIMARY KEY,
    name               text        NOT NULL CHECK (name <> ''),
    tier               text        NOT NULL CHECK (tier IN ('CRITICAL', 'ENTERPRISE', 'PRO', 'FREE', 'BATCH')),
    max_queued         integer     NOT NULL CHECK (max_queued >= 0),
    max_running        integer     NOT NULL CHECK (max_running >= 0),
    submits_per_minute integer     NOT NULL CHECK (submits_per_minute >= 0),
    weight             float8      NOT NULL DEFAULT 1 CHECK (weight > 0),
    -- The account's waiting jobs (SCHEDULED, BLOCKED, QUEUED) and the jobs that workers hold.
    queued             integer     NOT NULL DEFAULT 0 CHECK (queued >= 0),
    running            integer     NOT NULL DEFAULT 0 CHECK (running >= 0),
    -- Rises with each change of the counters, so that a late update of the ready index is recognised.
    version            bigint      NOT NULL DEFAULT 0,
    created_at         timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Artifacts name accounts without a foreign key: its check would lock the account's row for
-- each checkpoint, while submits, claims and ends wait for that row. This trigger keeps the
-- reference valid instead.
CREATE FUNCTION keep_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'Accounts keep their id and are never deleted: other rows name them.' USING ERRCODE = 'foreign_key_violation';
END
$$;

CREATE TRIGGER accounts_kept BEFORE DELETE OR UPDATE OF id ON accounts FOR EACH ROW EXECUTE FUNCTION keep_account();

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    account_id   uuid        NOT NULL REFERENCES accounts,
    name         text        NOT NULL,
    role         text        NOT NULL CHECK (role IN ('CLIENT', 'WORKER', 'OPERATOR', 'ADMIN')),
    prefix       text        NOT NULL,
    hash         bytea       NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    expires_at   timestamptz,
    revoked_at   timestamptz
);

-- The list of an account's keys.
CREATE INDEX api_keys_of_account ON api_keys (account_id, id);

-- A person's login to the console.
CREATE TABLE sessions (
    id           uuid PRIMARY KEY,
    key_id       uuid        NOT NULL REFERENCES api_keys ON DELETE CASCADE,
    hash         bytea       NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL
);

-- The sessions that end with their key.
CREATE INDEX sessions_of_key ON sessions (key_id);
