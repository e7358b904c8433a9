-- A run of a workflow ends once. Nothing to find for the checks: those of before allowed less. They
-- take no lock that stops reads or writes.
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_of_workflow;
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY webhook_events_of_workflow ON webhook_events (workflow_id, run) WHERE workflow_id IS NOT NULL;
--bun:split
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_type_check;
--bun:split
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_job_check;
