-- What a job takes from its sources, as its references say it after the dot: video, firstFrame,
-- lastFrame, thumbnail, output, and output with a path. A value is in the list as often as the
-- texts of the job contain it.
SET LOCAL lock_timeout = '5s';

ALTER TABLE job_sources ADD COLUMN takes text[] NOT NULL DEFAULT '{video}';

-- output_text returns the value of an output that take names: a string as it is, anything else
-- as JSON. It returns NULL if there is no such value.
CREATE FUNCTION output_text(output jsonb, take text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value IS NOT NULL THEN coalesce(value #>> '{}', 'null') END
    FROM (SELECT output #> string_to_array(substr(take, 8), '.') AS value WHERE take = 'output' OR take LIKE 'output.%') v
$$;
