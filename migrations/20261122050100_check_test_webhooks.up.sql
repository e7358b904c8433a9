-- Outside of a transaction: nobody has to wait for these.
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_type_check;
--bun:split
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_job_check;
