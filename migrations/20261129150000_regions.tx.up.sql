SET LOCAL lock_timeout = '5s';

-- Which region is the primary. Each promotion of a region is a row; the newest is in force. Rows are replicated to the
-- standby of another region with all others, so it knows what it takes over from.
CREATE TABLE region_promotions (
    epoch  bigint      PRIMARY KEY CHECK (epoch > 0),
    region text        NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
