-- The attempts whose worker an operator preempted, beside those that were preempted by nobody's doing.
SET LOCAL lock_timeout = '5s';
ALTER TABLE history_pools ADD COLUMN by_operators integer NOT NULL DEFAULT 0;
