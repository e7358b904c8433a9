SET LOCAL lock_timeout = '5s';

-- Who promoted the region, as USER@MACHINE: `reelay region promote` has no key of Reelay. Empty for the first region, which
-- became the primary when it started, and for a promotion that another region told of.
ALTER TABLE region_promotions ADD COLUMN promoted_by text NOT NULL DEFAULT '';
