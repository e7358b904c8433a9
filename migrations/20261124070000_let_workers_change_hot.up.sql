-- A worker's status changes with each job that it takes and ends, and stood in the condition
-- of this index, so that each change was written into all of the table's. ended_at says the
-- same (workers_check holds them together), and changes once. Outside of a transaction:
-- nobody has to wait for it. Between this step and their restart, processes of an older
-- version cannot register workers; their agents try again.
DROP INDEX CONCURRENTLY IF EXISTS workers_one_living_per_slot;
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY workers_one_living_per_slot ON workers (provider, provider_instance_id, slot) WHERE ended_at IS NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS workers_one_per_slot;
--bun:split
ALTER INDEX IF EXISTS workers_one_living_per_slot RENAME TO workers_one_per_slot;
