-- The W3C traceparent under which the job was submitted: its attempts and webhooks add spans to
-- that trace. NULL without one.
SET LOCAL lock_timeout = '5s';
ALTER TABLE jobs ADD COLUMN traceparent text CHECK (length(traceparent) <= 64);
