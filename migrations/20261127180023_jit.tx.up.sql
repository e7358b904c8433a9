-- Reelay's statements read a few rows through indexes. PostgreSQL would compile some of them, by
-- estimates that are far too high, which takes it a second or two for a statement of
-- milliseconds. New connections have the setting. Only the database's owner can change it.
DO $$
BEGIN
    EXECUTE format('ALTER DATABASE %I SET jit = off', current_database());
EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING 'jit stays on: let the owner of the database run ALTER DATABASE % SET jit = off', current_database();
END
$$;
