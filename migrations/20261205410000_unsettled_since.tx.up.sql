-- How long the oldest dependency has waited to be settled. The table is empty most of the time, and rows
-- are added at the end of the index.
CREATE INDEX unsettled_since ON unsettled (since);
