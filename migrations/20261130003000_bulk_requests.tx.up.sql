ALTER TABLE bulk_operations
    -- How many items failed, by error code.
    ADD COLUMN outcomes jsonb NOT NULL DEFAULT '{}',
    -- The caller's idempotency key: a repeated request gets the operation of the first.
    ADD COLUMN request_key text CHECK (length(request_key) BETWEEN 1 AND 200);

CREATE UNIQUE INDEX bulk_operations_by_request ON bulk_operations (account_id, request_key) WHERE request_key IS NOT NULL;
