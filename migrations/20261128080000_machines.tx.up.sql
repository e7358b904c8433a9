SET LOCAL lock_timeout = '5s';

-- The ledger of the machines that the scaler asked providers for: one row each, from which all sums of
-- paid time follow. The API and the scaler write what they did, and what the provider's list says.
CREATE TABLE machines (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool_id       uuid        NOT NULL REFERENCES pools,
    provider      text        NOT NULL,
    instance_id   text        NOT NULL,
    -- How many workers it runs. The price of a pool is that of a worker.
    workers       integer     NOT NULL CHECK (workers > 0),
    -- When the scaler wrote down that it would ask for the machine, and since when the machine exists and
    -- is paid for. NULL: the provider has not confirmed it.
    asked_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at    timestamptz,
    -- When its first worker registered.
    registered_at timestamptz,
    -- When its deletion was first asked for, and confirmed.
    told_at       timestamptz,
    deleted_at    timestamptz,
    -- When a list of the provider last had it, as far as that was noted: the first list, and the last ones
    -- before it was missing or after its deletion.
    listed_at     timestamptz,
    -- Since when the lists lack it, or say that it has ended. NULL: the newest has it.
    missing_at    timestamptz,
    -- The last sign of life of its workers before that.
    spoke_at      timestamptz,
    -- When it was clear that the machine does not exist any more, and until when it was paid for.
    gone_at       timestamptz,
    billed_until  timestamptz,
    UNIQUE (provider, instance_id),
    CHECK ((gone_at IS NULL) = (billed_until IS NULL))
);

-- The machines that are paid for, and those that were.
CREATE INDEX machines_paid ON machines (pool_id) WHERE gone_at IS NULL;
CREATE INDEX machines_over ON machines (billed_until) WHERE gone_at IS NOT NULL;

-- The machines of the workers that have not ended.
INSERT INTO machines (pool_id, provider, instance_id, workers, asked_at, created_at, registered_at)
SELECT w.pool_id, w.provider, w.provider_instance_id, max(p.workers_per_machine), min(w.created_at), min(w.created_at), min(w.registered_at)
FROM workers w JOIN pools p ON p.id = w.pool_id
WHERE w.ended_at IS NULL AND p.provider <> 'static'
GROUP BY w.pool_id, w.provider, w.provider_instance_id;

-- What was paid for, by class: {"boot": {"seconds": …, "usd": …}, …}, see models.Paid. It replaces sums of
-- attempts, which knew neither boots, idle time nor ends.
ALTER TABLE history_pools
    ADD COLUMN paid jsonb NOT NULL DEFAULT '{}',
    DROP COLUMN gpu_seconds,
    DROP COLUMN wasted_gpu_seconds,
    DROP COLUMN wasted_usd,
    DROP COLUMN cost_usd;

-- What was paid for since the installation, for counters that only grow.
CREATE TABLE paid_totals (
    -- The pool's name, or empty for workers without a pool.
    pool text  PRIMARY KEY,
    paid jsonb NOT NULL
);
