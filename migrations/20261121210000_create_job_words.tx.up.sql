SET LOCAL lock_timeout = '5s';

-- What a search finds jobs by, beside their ids and keys: the plain values of
-- their metadata. Rows are written once, with the job, and never change: an index
-- on the job's own row would be written again with each of its transitions.
CREATE TABLE job_words (
    word       text NOT NULL,
    account_id uuid NOT NULL,
    job_id     uuid NOT NULL,
    PRIMARY KEY (word, account_id, job_id)
);

-- The values of metadata that are words. A longer text than 200 characters is
-- nothing to type into a search.
CREATE FUNCTION metadata_words(metadata jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS $$
    SELECT DISTINCT value #>> '{}' FROM jsonb_each(metadata)
    WHERE jsonb_typeof(value) IN ('string', 'number', 'boolean') AND length(value #>> '{}') BETWEEN 1 AND 200
$$;

CREATE FUNCTION keep_job_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.metadata IS NOT NULL THEN
        DELETE FROM job_words
        WHERE word IN (SELECT metadata_words(OLD.metadata)) AND account_id = OLD.account_id AND job_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.metadata IS NOT NULL THEN
        INSERT INTO job_words (word, account_id, job_id) SELECT metadata_words(NEW.metadata), NEW.account_id, NEW.id;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER jobs_words_written AFTER INSERT ON jobs
    FOR EACH ROW WHEN (NEW.metadata IS NOT NULL) EXECUTE FUNCTION keep_job_words();
CREATE TRIGGER jobs_words_changed AFTER UPDATE OF metadata ON jobs
    FOR EACH ROW WHEN (OLD.metadata IS DISTINCT FROM NEW.metadata) EXECUTE FUNCTION keep_job_words();
CREATE TRIGGER jobs_words_removed AFTER DELETE ON jobs
    FOR EACH ROW WHEN (OLD.metadata IS NOT NULL) EXECUTE FUNCTION keep_job_words();

INSERT INTO job_words (word, account_id, job_id)
    SELECT metadata_words(metadata), account_id, id FROM jobs WHERE metadata IS NOT NULL;
