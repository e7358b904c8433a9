-- Who paused a pool: the id of a key, or the address of a member. '' while it is not paused.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools ADD COLUMN paused_by text NOT NULL DEFAULT '';
