SET LOCAL lock_timeout = '5s';

-- An account that is being deleted is closed at once: it takes nothing new, and starts no job. Its row stays, without
-- its name, since the ledger and counters name it.
ALTER TABLE accounts
    ADD COLUMN closed_at  timestamptz,
    -- When everything of it was deleted.
    ADD COLUMN deleted_at timestamptz,
    ADD CONSTRAINT accounts_closed CHECK (closed_at IS NULL OR max_queued = 0 AND max_running = 0 AND submits_per_minute = 0),
    ADD CONSTRAINT accounts_deleted CHECK (deleted_at IS NULL OR closed_at IS NOT NULL);

-- The deletion of an account: what was done so far, and then the report.
CREATE TABLE account_deletions (
    account_id    uuid PRIMARY KEY REFERENCES accounts,
    -- The key of the caller who asked for it. Jobs are cancelled in its name.
    key_id        uuid,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- How many rows of each kind were deleted, and kept.
    deleted       jsonb       NOT NULL DEFAULT '{}',
    kept          jsonb       NOT NULL DEFAULT '{}',
    -- The kind that it worked on last.
    doing         text        NOT NULL DEFAULT '',
    -- The last row of the ledger of which the user was removed.
    ledger_done   bigint      NOT NULL DEFAULT 0,
    next_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz,
    -- By when the object store has nothing of the account.
    objects_gone_at timestamptz,
    CHECK ((finished_at IS NULL) = (objects_gone_at IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX account_deletions_due ON account_deletions (next_at) WHERE finished_at IS NULL;

-- refuse_closed refuses a new row of a closed account. It runs after the insert and locks the account's row, for which
-- the transaction that closes the account waits: what is inserted before is deleted with the account, and the rest is refused.
-- Jobs need no trigger: submits look at the account, and exclude its closing (models.LockSubmits).
CREATE FUNCTION refuse_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM accounts WHERE id = NEW.account_id AND closed_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'The account is closed: it is being deleted.' USING ERRCODE = 'RL001';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER schedules_of_open_account AFTER INSERT ON schedules FOR EACH ROW EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER webhook_endpoints_of_open_account AFTER INSERT ON webhook_endpoints FOR EACH ROW EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER api_keys_of_open_account AFTER INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER members_of_open_account AFTER INSERT ON members FOR EACH ROW EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER budgets_of_open_account AFTER INSERT ON budgets FOR EACH ROW EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER bulk_operations_of_open_account AFTER INSERT ON bulk_operations FOR EACH ROW EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER uploads_of_open_account AFTER INSERT ON uploads FOR EACH ROW WHEN (NEW.type = 'INPUT') EXECUTE FUNCTION refuse_closed();
CREATE TRIGGER inputs_of_open_account AFTER INSERT ON artifacts FOR EACH ROW WHEN (NEW.type = 'INPUT') EXECUTE FUNCTION refuse_closed();

-- The endpoint for callbacks is deleted with its account, too.
ALTER TABLE webhook_endpoints
    DROP CONSTRAINT webhook_endpoints_check5,
    ADD CONSTRAINT webhook_endpoints_callbacks CHECK (url IS NOT NULL OR disabled_at IS NULL);
