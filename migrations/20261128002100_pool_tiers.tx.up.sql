-- The lanes that a pool serves, empty for all, and a copy on each of its workers, so that a lease reads no pool.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools ADD COLUMN tiers text[] NOT NULL DEFAULT '{}';
ALTER TABLE workers ADD COLUMN tiers text[] NOT NULL DEFAULT '{}';
