-- The acts of operators. Each row is written in the transaction of the act. It can name
-- rows that no longer exist, so it has no foreign keys.
CREATE TABLE audit_log (
    id        uuid PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- NULL for an act on the database itself, which needs no key.
    key_id    uuid,
    -- The key's name at that time.
    actor     text        NOT NULL,
    action    text        NOT NULL CHECK (action <> ''),
    target    text,
    payload   jsonb       NOT NULL DEFAULT '{}',
    -- The member that acted; NULL for a key.
    member_id uuid
);

-- The acts on one target, newest first.
CREATE INDEX audit_log_of_target ON audit_log (target, id);
-- The acts of one actor, and those of one kind, newest first.
CREATE INDEX audit_log_of_actor ON audit_log (actor, id);
CREATE INDEX audit_log_of_action ON audit_log (action, id);

CREATE FUNCTION keep_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is append-only' USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION keep_audit_log();
