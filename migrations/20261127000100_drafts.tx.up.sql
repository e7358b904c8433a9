-- Drafts: jobs that end after some steps, with a preview and a checkpoint instead of a video. A
-- later job continues from the checkpoint, which then belongs to that job.
SET LOCAL lock_timeout = '5s';
-- The step after which a draft ends. NULL for other jobs.
ALTER TABLE jobs ADD COLUMN draft_steps integer;
-- Until when a COMPLETED draft's preview and checkpoint are kept.
ALTER TABLE jobs ADD COLUMN kept_until timestamptz;
-- The drafts of one request with different seeds have the same value.
ALTER TABLE jobs ADD COLUMN takes_id uuid;
-- The draft that the job continues.
ALTER TABLE jobs ADD COLUMN continues uuid;
ALTER TABLE jobs ADD CONSTRAINT jobs_draft_check CHECK (
    CASE WHEN draft_steps IS NULL THEN kept_until IS NULL AND takes_id IS NULL
    ELSE draft_steps >= 1 AND num_nonnulls(result_id, continues) = 0 END) NOT VALID;
ALTER TABLE jobs ADD CONSTRAINT jobs_continues_fkey FOREIGN KEY (continues) REFERENCES jobs ON DELETE SET NULL NOT VALID;
-- How many hours an account's drafts are kept.
ALTER TABLE accounts ADD COLUMN drafts_kept_hours integer NOT NULL DEFAULT 168 CHECK (drafts_kept_hours BETWEEN 1 AND 2160);
