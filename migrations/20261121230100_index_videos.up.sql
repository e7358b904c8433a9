-- Outside of a transaction: nobody has to wait for this.
DROP INDEX CONCURRENTLY IF EXISTS jobs_videos;
--bun:split
-- An account's videos that were not deleted: what the Videos API lists.
CREATE INDEX CONCURRENTLY jobs_videos ON jobs (account_id, id) WHERE type = 'video.generate' AND deleted_at IS NULL;
