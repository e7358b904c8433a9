SET LOCAL lock_timeout = '5s';

-- machine_state returns the state of a machine of the ledger. It follows from the row's times alone.
CREATE FUNCTION machine_state(machine machines) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN machine.gone_at IS NOT NULL THEN 'GONE'
        WHEN machine.told_at IS NOT NULL OR machine.deleted_at IS NOT NULL THEN 'ENDING'
        WHEN machine.missing_at IS NOT NULL THEN 'MISSING'
        WHEN machine.registered_at IS NOT NULL THEN 'RUNNING'
        WHEN machine.created_at IS NOT NULL THEN 'BOOTING'
        ELSE 'ASKED'
    END
$$;

-- The ledger, newest first: of all pools, and of one.
CREATE INDEX machines_asked ON machines (asked_at, id);
CREATE INDEX machines_of_pool ON machines (pool_id, asked_at, id);

-- The machine that a cloud's bill names. The old order of the columns had no index for that.
ALTER TABLE machines DROP CONSTRAINT machines_provider_instance_id_key, ADD UNIQUE (instance_id, provider);

-- The workers that ran on a machine.
CREATE INDEX workers_of_machine ON workers (provider, provider_instance_id, id);
