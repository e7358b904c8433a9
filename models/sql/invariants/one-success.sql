SELECT 'job_' || j.id AS id FROM examined j
CROSS JOIN LATERAL (
    SELECT count(*) AS n, max(attempt_no) AS last FROM job_attempts WHERE job_id = j.id AND run = j.run AND status = 'SUCCEEDED') a
WHERE a.n <> CASE WHEN j.status = 'COMPLETED' AND j.reused_from IS NULL AND j.type <> 'workflow.approval' THEN 1 ELSE 0 END
    OR a.last <> j.attempt_no
UNION ALL
-- An approval completes with an answer.
SELECT 'job_' || j.id FROM examined j
WHERE j.type = 'workflow.approval' AND (j.status = 'COMPLETED') <> EXISTS (
    SELECT FROM approvals a WHERE a.job_id = j.id AND a.run = j.run AND a.decision = 'APPROVED')
