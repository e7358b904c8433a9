-- Messages that are written in the transaction that they tell of, and relayed after it. They
-- are written, claimed and deleted: the fillfactor gives a claim room on the message's page,
-- and autovacuum removes dead ones before many pile up in front of the oldest living one.
CREATE TABLE outbox (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          text        NOT NULL,
    payload       jsonb       NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
