-- The BLAKE3 hash of an input that came in the body of a request. A client that has the same bytes finds it by
-- that, and does not send them again.
SET LOCAL lock_timeout = '5s';

ALTER TABLE uploads ADD COLUMN blake3 bytea CHECK (octet_length(blake3) = 32);
ALTER TABLE artifacts ADD COLUMN blake3 bytea CHECK (octet_length(blake3) = 32);

CREATE INDEX uploads_of_hash ON uploads (account_id, blake3) WHERE blake3 IS NOT NULL;
CREATE INDEX artifacts_of_hash ON artifacts (account_id, blake3) WHERE blake3 IS NOT NULL;
