SET LOCAL lock_timeout = '5s';

-- Which region is the primary. Each promotion of a region is a row; the newest is in force. Rows are replicated to the
-- standby of another region with all others, so it knows what it takes over from.
CREATE TABLE region_promotions (
    epoch   bigint      PRIMARY KEY CHECK (epoch > 0),
    region  text        NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- It was not made here: a process of the other region told of it. So this database was overtaken, and lacks what the other has.
    learned boolean     NOT NULL DEFAULT false
);

-- What tells a copy of this database from another one: a region is fenced by copies only.
CREATE TABLE installation (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id  uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO installation DEFAULT VALUES;
