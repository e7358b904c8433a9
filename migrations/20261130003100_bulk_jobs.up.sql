-- Finds the jobs of a bulk operation: a search for bulk:bulk_….
DROP INDEX CONCURRENTLY IF EXISTS bulk_items_by_job;
--bun:split
CREATE INDEX CONCURRENTLY bulk_items_by_job ON bulk_items (operation_id, job_id NULLS FIRST);
