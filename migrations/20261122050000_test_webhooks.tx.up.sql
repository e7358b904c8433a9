SET LOCAL lock_timeout = '5s';

-- A test of an endpoint is told as the end of a run is, but of no job.
ALTER TABLE webhook_events
    ALTER COLUMN job_id DROP NOT NULL,
    DROP CONSTRAINT webhook_events_type_check,
    ADD CONSTRAINT webhook_events_type_check CHECK (type IN ('job.completed', 'job.failed', 'job.cancelled', 'webhook.test')) NOT VALID,
    ADD CONSTRAINT webhook_events_job_check CHECK ((job_id IS NULL) = (type = 'webhook.test')) NOT VALID;
