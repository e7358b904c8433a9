-- How many webhooks a hosted provider sent about the job of a slot: only the first few bring a poll forward.
SET LOCAL lock_timeout = '5s';

ALTER TABLE provider_slots ADD COLUMN webhooks smallint NOT NULL DEFAULT 0;
