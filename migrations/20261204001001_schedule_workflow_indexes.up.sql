-- The checks take no lock that stops reads or writes. The indexes find the workflows of a schedule, the
-- newest first, and the schedule of a workflow.
ALTER TABLE schedules VALIDATE CONSTRAINT schedules_submits;
--bun:split
ALTER TABLE schedule_slots VALIDATE CONSTRAINT schedule_slots_fired;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS schedule_slots_workflows;
--bun:split
CREATE UNIQUE INDEX CONCURRENTLY schedule_slots_workflows ON schedule_slots (schedule_id, workflow_id) WHERE workflow_id IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS schedule_slots_workflow;
--bun:split
CREATE INDEX CONCURRENTLY schedule_slots_workflow ON schedule_slots (workflow_id) WHERE workflow_id IS NOT NULL;
