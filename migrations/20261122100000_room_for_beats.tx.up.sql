SET LOCAL lock_timeout = '5s';

-- A heartbeat writes a new version of each row that it renews, and of all on a
-- page at once if their workers come together: as much room as there are rows
-- keeps the new versions on their pages, so that no index changes. These settings
-- take no lock that reads or writes wait for; pages fill so from now on.
ALTER TABLE job_attempts SET (fillfactor = 45);
ALTER TABLE workers SET (fillfactor = 45);
