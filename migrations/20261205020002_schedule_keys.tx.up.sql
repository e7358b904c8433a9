-- The idempotency key with which a schedule was made, and the digest of that request.
SET LOCAL lock_timeout = '5s';
ALTER TABLE schedules
    ADD COLUMN idempotency_key text,
    ADD COLUMN request_digest  bytea;
