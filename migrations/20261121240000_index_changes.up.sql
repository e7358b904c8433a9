-- Finds the events of the last seconds, for those who follow status changes.
-- Events are appended as time goes on, so that a summary per range of blocks
-- does, and costs a write next to nothing. Partitions to come have it, too.
CREATE INDEX IF NOT EXISTS job_events_recent ON job_events USING brin (created_at) WITH (pages_per_range = 16, autosummarize = on);
