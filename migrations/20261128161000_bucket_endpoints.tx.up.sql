-- An endpoint may be a bucket of the account, into which videos are written. Its secret is then the
-- bucket's keys.
SET LOCAL lock_timeout = '5s';

ALTER TABLE webhook_endpoints DROP CONSTRAINT webhook_endpoints_format_check;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_format_check CHECK (format IN ('STANDARD', 'OPENAI', 'BUCKET')) NOT VALID;
ALTER TABLE webhook_endpoints VALIDATE CONSTRAINT webhook_endpoints_format_check;
