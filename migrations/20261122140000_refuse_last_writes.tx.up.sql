-- What a statement calls that commits its transaction and whose rows are not as they
-- have to be: then nothing of it may stay.
CREATE FUNCTION refuse_write() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The rows are not as they have to be: nothing was written, and whoever asked for it tries again.' USING ERRCODE = 'RL001';
END
$$;
