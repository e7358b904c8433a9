-- To write an artifact locked its account's row, against its deletion: for each
-- checkpoint, while submits, claims and ends wait for that row. And while a row has
-- such locks, PostgreSQL lets a statement that locks it and then updates it wait behind
-- those who wait for that statement: a deadlock, until one is out of patience. Accounts
-- are never deleted, which is said here once for all of them.
SET LOCAL lock_timeout = '5s';

CREATE FUNCTION keep_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'Accounts keep their id and are never deleted: other rows name them.' USING ERRCODE = 'foreign_key_violation';
END
$$;

CREATE TRIGGER accounts_kept BEFORE DELETE OR UPDATE OF id ON accounts FOR EACH ROW EXECUTE FUNCTION keep_account();

ALTER TABLE artifacts DROP CONSTRAINT artifacts_account_id_fkey;
