SET LOCAL lock_timeout = '5s';

-- Why an operator paused the queue, in the operator's words.
ALTER TABLE queue_pauses ADD COLUMN reason text;
