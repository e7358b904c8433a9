-- What a job can bear: losses of spot workers, a deadline, and a price. needs is what that
-- requires of a worker now (models.Needs), and slack_until when a queued job with a deadline
-- is looked at again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE jobs
    ADD COLUMN max_preemptions integer,
    ADD COLUMN finish_by timestamptz,
    ADD COLUMN max_price_per_hour double precision,
    ADD COLUMN preemptions integer NOT NULL DEFAULT 0,
    ADD COLUMN needs text NOT NULL DEFAULT '',
    ADD COLUMN slack_until timestamptz;
-- What a worker costs per hour, as its pool says. NULL: unknown.
ALTER TABLE workers ADD COLUMN price_per_hour_usd double precision;
