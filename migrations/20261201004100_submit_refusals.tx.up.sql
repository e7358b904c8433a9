-- How many submits failed through no fault of their callers, by the minute: only minutes with any
-- have a row, for a day. A refused submit leaves nothing else behind.
CREATE TABLE submit_refusals (
    at      timestamptz PRIMARY KEY,
    refused integer     NOT NULL CHECK (refused > 0)
);
