-- The period in which each piece of periodic work was last begun, by whichever
-- control process: none begins it twice.
CREATE TABLE passes (
    name     text        PRIMARY KEY,
    period   bigint      NOT NULL, -- counted from the epoch, in the pass's own length
    begun_at timestamptz NOT NULL
);
