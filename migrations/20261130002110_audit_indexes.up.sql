-- The acts of one actor, and those of one kind, newest first.
DROP INDEX CONCURRENTLY IF EXISTS audit_log_of_actor;
--bun:split
CREATE INDEX CONCURRENTLY audit_log_of_actor ON audit_log (actor, id);
--bun:split
DROP INDEX CONCURRENTLY IF EXISTS audit_log_of_action;
--bun:split
CREATE INDEX CONCURRENTLY audit_log_of_action ON audit_log (action, id);
