-- What a function in plpgsql asks is planned once for each connection; what one in
-- SQL asks is planned for each statement that calls it, which took longer than to
-- write the jobs of a submit.
CREATE OR REPLACE FUNCTION lane_time(of_lane text, of_promoted boolean) RETURNS float8 LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        (SELECT virtual_time FROM account_lanes
            WHERE lane = of_lane AND promoted = of_promoted AND queued > 0 AND NOT capped ORDER BY virtual_time LIMIT 1),
        (SELECT virtual_time FROM account_lanes
            WHERE lane = of_lane AND promoted = of_promoted ORDER BY virtual_time DESC LIMIT 1),
        0);
END
$$;
