-- The bulk action SET_PRIORITY, and the priority that it sets.
SET LOCAL lock_timeout = '5s';
ALTER TABLE bulk_operations ADD COLUMN priority smallint CHECK (priority BETWEEN -100 AND 100);
ALTER TABLE bulk_operations DROP CONSTRAINT bulk_operations_action_check;
ALTER TABLE bulk_operations ADD CONSTRAINT bulk_operations_action_check
    CHECK (action IN ('CANCEL', 'RETRY', 'REDRIVE', 'DELETE', 'SET_TIER', 'SET_PRIORITY'));
ALTER TABLE bulk_operations ADD CONSTRAINT bulk_operations_priority_given
    CHECK ((action = 'SET_PRIORITY') = (priority IS NOT NULL));
