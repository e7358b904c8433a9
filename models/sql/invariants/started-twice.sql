SELECT 'job_' || j.id AS id FROM examined j
WHERE j.at_most_once AND EXISTS (SELECT FROM job_attempts WHERE job_id = j.id GROUP BY run HAVING count(*) > 1)
