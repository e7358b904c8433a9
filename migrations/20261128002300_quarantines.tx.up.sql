-- Hosts that get no jobs for a while. A host is a machine of a provider: its workers of the future
-- count, too. The columns of workers repeat what holds for their host.
SET LOCAL lock_timeout = '5s';
CREATE TABLE quarantines (
    provider             text        NOT NULL,
    provider_instance_id text        NOT NULL,
    -- NULL: an operator released the host.
    until                timestamptz,
    cause                text        NOT NULL CHECK (cause IN ('OPERATOR', 'CRASHES', 'GPU')),
    reason               text        NOT NULL,
    -- How often the host was quarantined without an operator.
    times                integer     NOT NULL DEFAULT 0 CHECK (times >= 0),
    -- When it was last quarantined or released.
    changed_at           timestamptz NOT NULL,
    PRIMARY KEY (provider, provider_instance_id)
);
ALTER TABLE workers
    ADD COLUMN quarantined_until timestamptz,
    ADD COLUMN quarantine_cause  text NOT NULL DEFAULT '',
    ADD COLUMN quarantine_reason text NOT NULL DEFAULT '';
