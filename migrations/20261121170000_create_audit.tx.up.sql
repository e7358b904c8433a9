SET LOCAL lock_timeout = '5s';

-- What operators did, each row written in the transaction of the act. It names
-- rows that may be gone by now, so it refers to none.
CREATE TABLE audit_log (
    id      uuid PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Null for what was done from beside the database, without a key.
    key_id  uuid,
    -- The key's name at that time.
    actor   text        NOT NULL,
    action  text        NOT NULL CHECK (action <> ''),
    target  text,
    payload jsonb       NOT NULL DEFAULT '{}'
);

CREATE INDEX audit_log_of_target ON audit_log (target, id);

-- Nobody rewrites what was done.
CREATE FUNCTION keep_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is append-only' USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_log();

CREATE INDEX api_keys_of_account ON api_keys (account_id, id);
CREATE INDEX sessions_of_key ON sessions (key_id);
