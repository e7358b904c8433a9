SET LOCAL lock_timeout = '5s';

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

-- A member acts under a key that nobody holds, so that what a key did and what a member did
-- have the same columns.
ALTER TABLE api_keys ADD COLUMN member_id uuid REFERENCES members;

CREATE UNIQUE INDEX api_keys_of_member ON api_keys (member_id) WHERE member_id IS NOT NULL;

ALTER TABLE sessions ADD COLUMN member_id uuid REFERENCES members;

-- The address that the login came from, and the browser, for the list of one's own logins.
ALTER TABLE sessions ADD COLUMN address text, ADD COLUMN browser text;

CREATE INDEX sessions_of_member ON sessions (member_id) WHERE member_id IS NOT NULL;

-- The member that acted; NULL for a key.
ALTER TABLE audit_log ADD COLUMN member_id uuid;
