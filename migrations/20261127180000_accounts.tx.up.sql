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
    created_at         timestamptz NOT NULL DEFAULT now(),
    -- How many hours the account's drafts are kept.
    drafts_kept_hours  integer     NOT NULL DEFAULT 168 CHECK (drafts_kept_hours BETWEEN 1 AND 2160)
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

-- A person who logs in to the console.
CREATE TABLE members (
    id            uuid PRIMARY KEY,
    -- Jobs that the member submits belong to this account.
    account_id    uuid        NOT NULL REFERENCES accounts,
    email         text        NOT NULL UNIQUE CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    name          text        NOT NULL,
    role          text        NOT NULL CHECK (role IN ('VIEWER', 'OPERATOR', 'ADMIN')),
    -- argon2id in PHC format. NULL until the member chose one, and for members of single sign-on.
    password_hash text,
    -- The issuer and subject of the member at the OpenID provider, separated by a space.
    subject       text UNIQUE,
    created_at    timestamptz NOT NULL DEFAULT now(),
    last_login_at timestamptz,
    disabled_at   timestamptz
);

-- One-time links with which a member chooses a password.
CREATE TABLE invitations (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    member_id  uuid        NOT NULL REFERENCES members,
    expires_at timestamptz NOT NULL
);

CREATE INDEX invitations_of_member ON invitations (member_id);

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    account_id   uuid        NOT NULL REFERENCES accounts,
    name         text        NOT NULL,
    role         text        NOT NULL CHECK (role IN ('CLIENT', 'WORKER', 'VIEWER', 'OPERATOR', 'ADMIN')),
    prefix       text        NOT NULL,
    hash         bytea       NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    -- A member acts under a key that nobody holds, so that what a key did and what a member did
    -- have the same columns.
    member_id    uuid REFERENCES members
);

-- The list of an account's keys.
CREATE INDEX api_keys_of_account ON api_keys (account_id, id);
CREATE UNIQUE INDEX api_keys_of_member ON api_keys (member_id) WHERE member_id IS NOT NULL;

-- A person's login to the console.
CREATE TABLE sessions (
    id           uuid PRIMARY KEY,
    key_id       uuid        NOT NULL REFERENCES api_keys ON DELETE CASCADE,
    hash         bytea       NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    member_id    uuid REFERENCES members,
    -- The address that the login came from, and the browser, for the list of one's own logins.
    address      text,
    browser      text
);

-- The sessions that end with their key.
CREATE INDEX sessions_of_key ON sessions (key_id);
CREATE INDEX sessions_of_member ON sessions (member_id) WHERE member_id IS NOT NULL;
