SELECT 'acc_' || a.id || ' in ' || l.lane AS id FROM accounts a JOIN account_lanes l ON l.account_id = a.id
WHERE l.capped <> (a.running >= a.max_running)
