-- Whether nobody has to hear that jobs of these accounts end: no other job that depends
-- on one, and no webhook. It is volatile, so that it sees all that is committed by the
-- time at which it is called, and not what the statement saw that calls it.
CREATE FUNCTION unheard(ended uuid[], accounts uuid[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN NOT EXISTS (
            SELECT FROM unnest(ended) AS o (id)
            WHERE EXISTS (SELECT FROM job_dependencies WHERE depends_on = o.id OFFSET 0))
        AND NOT EXISTS (
            SELECT FROM unnest(accounts) AS o (id)
            WHERE EXISTS (SELECT FROM webhook_endpoints WHERE account_id = o.id AND deleted_at IS NULL OFFSET 0));
END
$$;
