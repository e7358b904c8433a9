-- The check takes no lock that stops reads or writes. The indexes find the accounts whose slots are due, the
-- slot that is due first, and the slots of a backfill.
ALTER TABLE schedule_slots VALIDATE CONSTRAINT schedule_slots_account;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS schedule_slots_flows;
--bun:split
CREATE INDEX CONCURRENTLY schedule_slots_flows ON schedule_slots (tier, account_id, due_at) WHERE due_at IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS schedule_slots_first;
--bun:split
CREATE INDEX CONCURRENTLY schedule_slots_first ON schedule_slots (due_at) WHERE due_at IS NOT NULL;
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS schedule_slots_backfills;
--bun:split
CREATE INDEX CONCURRENTLY schedule_slots_backfills ON schedule_slots (schedule_id, ended_at) WHERE cause = 'BACKFILL';
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS schedule_slots_due;
