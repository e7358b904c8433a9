SELECT 'art_' || r.id AS id FROM examined j JOIN artifacts r ON r.job_id = j.id WHERE r.account_id <> j.account_id
UNION ALL
SELECT 'job_' || j.id FROM examined j
JOIN job_dependencies d ON d.job_id = j.id JOIN jobs p ON p.id = d.depends_on WHERE p.account_id <> j.account_id
UNION ALL
SELECT 'art_' || r.id FROM examined j
JOIN input_uses u ON u.job_id = j.id JOIN artifacts r ON r.id = u.artifact_id WHERE r.account_id <> j.account_id
UNION ALL
SELECT 'job_' || j.id FROM examined j
JOIN job_sources s ON s.job_id = j.id JOIN jobs p ON p.id = s.source_id WHERE p.account_id <> j.account_id
UNION ALL
SELECT 'wfl_' || w.id FROM examined j
JOIN workflow_nodes n ON n.job_id = j.id JOIN workflows w ON w.id = n.workflow_id WHERE w.account_id <> j.account_id
UNION ALL
SELECT 'job_' || j.id FROM examined j
JOIN approvals a ON a.job_id = j.id JOIN jobs p ON p.id = a.picked WHERE p.account_id <> j.account_id
