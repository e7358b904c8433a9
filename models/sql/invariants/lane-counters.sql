SELECT 'acc_' || coalesce(l.account_id, j.account_id) || ' in ' || coalesce(l.lane, j.lane) AS id FROM account_lanes l
FULL JOIN (
    SELECT account_id, lane, (lane <> tier AND lane <> 'CRITICAL') AS promoted, count(*) AS n
    FROM jobs WHERE status = 'QUEUED' GROUP BY 1, 2, 3) j
    ON j.account_id = l.account_id AND j.lane = l.lane AND j.promoted = l.promoted
WHERE coalesce(l.queued, 0) <> coalesce(j.n, 0)
