-- What the newest attempt's runtime stored so that a later attempt can adopt work that goes on
-- outside the worker. It is cleared when the job's run ends.
SET LOCAL lock_timeout = '5s';
ALTER TABLE jobs ADD COLUMN handle text;
