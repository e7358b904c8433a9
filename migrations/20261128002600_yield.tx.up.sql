-- The request that a running attempt gives way to a job of a higher lane, which yield_to names.
SET LOCAL lock_timeout = '5s';
ALTER TABLE job_attempts
    ADD COLUMN yield_requested_at timestamptz,
    ADD COLUMN yield_to           text;
