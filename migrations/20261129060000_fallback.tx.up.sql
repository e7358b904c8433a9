-- Other models that may render a job, and the changes of its model.
SET LOCAL lock_timeout = '5s';

ALTER TABLE jobs ADD COLUMN fallback jsonb, ADD COLUMN routes jsonb;

-- For the pass that looks for another model.
CREATE INDEX jobs_fallback ON jobs (queued_at) WHERE status = 'QUEUED' AND fallback IS NOT NULL AND handle IS NULL;
