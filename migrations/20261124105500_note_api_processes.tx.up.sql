SET LOCAL lock_timeout = '5s';

-- Each API process, while it runs. A process that cannot reach PostgreSQL is silent here:
-- the workers whose connections lead to it cannot renew their leases.
CREATE TABLE api_processes (
    id          uuid PRIMARY KEY,
    seen_at     timestamptz NOT NULL,
    -- When its newest silence of 5 s or more began, of those that are over.
    silent_from timestamptz
) WITH (fillfactor = 50);
