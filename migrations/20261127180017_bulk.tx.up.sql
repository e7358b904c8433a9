-- One action on every job that a filter matched when the operation began.
CREATE TABLE bulk_operations (
    id          uuid PRIMARY KEY,
    action      text        NOT NULL CHECK (action IN ('CANCEL', 'RETRY', 'REDRIVE', 'DELETE', 'SET_TIER', 'SET_PRIORITY')),
    -- The request, for people to read. bulk_items holds the jobs that matched.
    filter      jsonb       NOT NULL,
    tier        text,
    per_minute  integer     NOT NULL CHECK (per_minute BETWEEN 1 AND 60000),
    -- The number of items that come first. The others wait until these ended well.
    canary      integer     NOT NULL CHECK (canary >= 0),
    canary_over boolean     NOT NULL,
    matched     integer     NOT NULL CHECK (matched >= 0),
    done        integer     NOT NULL DEFAULT 0 CHECK (done >= 0),
    failed      integer     NOT NULL DEFAULT 0 CHECK (failed >= 0),
    paused      boolean     NOT NULL DEFAULT false,
    -- The operation acts as the key that started it.
    account_id  uuid        NOT NULL REFERENCES accounts,
    started_by  uuid        NOT NULL REFERENCES api_keys,
    role        text        NOT NULL,
    errors      jsonb       NOT NULL DEFAULT '[]',
    -- When per_minute allows the next item.
    next_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    -- How many items failed, by error code.
    outcomes    jsonb       NOT NULL DEFAULT '{}',
    -- The caller's idempotency key: a repeated request gets the operation of the first.
    request_key text CHECK (length(request_key) BETWEEN 1 AND 200),
    -- What SET_PRIORITY sets.
    priority    smallint CHECK (priority BETWEEN -100 AND 100),
    CHECK (done + failed <= matched),
    CHECK ((action = 'SET_TIER') = (tier IS NOT NULL)),
    CONSTRAINT bulk_operations_priority_given CHECK ((action = 'SET_PRIORITY') = (priority IS NOT NULL))
) WITH (fillfactor = 50);

-- The operations whose next item is due.
CREATE INDEX bulk_operations_due ON bulk_operations (next_at) WHERE finished_at IS NULL AND NOT paused;
-- The open operations of an account, whose number is limited.
CREATE INDEX bulk_operations_open ON bulk_operations (account_id) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX bulk_operations_by_request ON bulk_operations (account_id, request_key) WHERE request_key IS NOT NULL;
-- The finished operations that the upkeep deletes.
CREATE INDEX bulk_operations_over ON bulk_operations (finished_at) WHERE finished_at IS NOT NULL;

-- A job of an operation, in the run in which the filter matched it. The job's row can be deleted
-- before the item's turn comes.
CREATE TABLE bulk_items (
    operation_id uuid     NOT NULL REFERENCES bulk_operations ON DELETE CASCADE,
    seq          integer  NOT NULL,
    job_id       uuid     NOT NULL,
    run          integer  NOT NULL,
    state        text     NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'DONE', 'FAILED')),
    -- How often it failed through a fault of ours.
    tries        smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (operation_id, seq)
);

-- The next items of an operation, those that never failed first.
CREATE INDEX bulk_items_pending ON bulk_items (operation_id, tries, seq) WHERE state = 'PENDING';
-- The jobs of a bulk operation: a search for bulk:bulk_….
CREATE INDEX bulk_items_by_job ON bulk_items (operation_id, job_id NULLS FIRST);
