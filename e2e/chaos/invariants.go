package main

// invariant is a query that must find nothing; each row is a breach, and its
// first column says where.
type invariant struct{ name, query string }

// invariants are what holds on the whole of the database at any time at rest.
var invariants = []invariant{
	{"every job is over", `
		SELECT id FROM jobs WHERE completed_at IS NULL`},
	{"at most one attempt of a job lives, and the job names it", `
		SELECT coalesce(j.id, a.job_id) FROM jobs j FULL JOIN (SELECT * FROM job_attempts WHERE ended_at IS NULL) a ON a.job_id = j.id
		WHERE j.current_attempt_id IS DISTINCT FROM a.id
			OR a.id IS NOT NULL AND (a.attempt_no <> j.attempt_no OR a.run <> j.run OR j.status NOT IN ('ASSIGNED', 'RUNNING', 'COMPLETING'))`},
	{"at most one attempt of a worker lives", `
		SELECT worker_id FROM job_attempts WHERE ended_at IS NULL GROUP BY 1 HAVING count(*) > 1`},
	{"attempts of a job do not overlap", `
		SELECT a.job_id FROM job_attempts a JOIN job_attempts b ON b.job_id = a.job_id AND b.attempt_no = a.attempt_no + 1
		WHERE a.ended_at IS NULL OR a.ended_at > b.leased_at`},
	{"attempts are numbered without a gap", `
		SELECT j.id FROM jobs j LEFT JOIN job_attempts a ON a.job_id = j.id
		GROUP BY j.id HAVING count(a.id) <> j.attempt_no OR coalesce(max(a.attempt_no), 0) <> j.attempt_no`},
	{"no attempt writes once a newer one has", `
		SELECT job_id FROM (
			SELECT e.job_id, a.attempt_no, max(a.attempt_no) OVER (PARTITION BY e.job_id ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
			FROM job_events e JOIN job_attempts a ON a.id = e.attempt_id) x
		WHERE attempt_no < before`},
	{"the film is of the one attempt that succeeded, the last", `
		SELECT j.id FROM jobs j JOIN artifacts r ON r.id = j.result_id LEFT JOIN job_attempts a ON a.id = r.attempt_id
		WHERE r.job_id <> j.id OR r.type <> 'FINAL_VIDEO' OR a.status IS DISTINCT FROM 'SUCCEEDED' OR a.attempt_no <> j.attempt_no OR j.status <> 'COMPLETED'`},
	{"a completed job has a film, and one attempt that succeeded in its run", `
		SELECT j.id FROM jobs j LEFT JOIN job_attempts a ON a.job_id = j.id AND a.run = j.run AND a.status = 'SUCCEEDED'
		GROUP BY j.id HAVING (j.status = 'COMPLETED') <> (j.result_id IS NOT NULL) OR count(a.id) <> (CASE WHEN j.status = 'COMPLETED' THEN 1 ELSE 0 END)`},
	{"events are numbered without a gap", `
		SELECT j.id FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id
		GROUP BY j.id HAVING count(e.seq) <> j.event_seq OR min(e.seq) <> 1 OR max(e.seq) <> j.event_seq`},
	{"no event is of a job that is not there", `
		SELECT e.job_id FROM job_events e LEFT JOIN jobs j ON j.id = e.job_id WHERE j.id IS NULL`},
	{"each run has one terminal event, and what ended stays ended", `
		SELECT j.id FROM jobs j LEFT JOIN job_events e
			ON e.job_id = j.id AND e.run = j.run AND e.type IN ('COMPLETED', 'FAILED', 'CANCELLED')
		GROUP BY j.id
		HAVING count(e.seq) <> (CASE WHEN j.completed_at IS NULL THEN 0 ELSE 1 END)
			OR count(e.seq) FILTER (WHERE e.type <> j.status OR e.seq <> j.event_seq) > 0`},
	{"no run has two terminal events", `
		SELECT job_id FROM job_events WHERE type IN ('COMPLETED', 'FAILED', 'CANCELLED') GROUP BY job_id, run HAVING count(*) > 1`},
	{"a run goes on from the one before it", `
		SELECT job_id FROM (SELECT job_id, run, lag(run) OVER (PARTITION BY job_id ORDER BY seq) AS before FROM job_events) x
		WHERE run NOT IN (before, before + 1)`},
	{"no lease is taken before it ran out", `
		SELECT id FROM job_attempts WHERE status = 'LOST' AND failure_reason = 'its lease ran out' AND ended_at < lease_expires_at`},
	{"a job does not start before those that it depends on are done", `
		SELECT a.job_id FROM job_attempts a JOIN job_dependencies d ON d.job_id = a.job_id JOIN jobs p ON p.id = d.depends_on
		WHERE p.status <> 'COMPLETED' OR p.completed_at > a.leased_at`},
	{"ended attempts say why", `
		SELECT id FROM job_attempts WHERE status IN ('FAILED', 'LOST', 'RELEASED') AND coalesce(failure_class, '') = ''`},
	{"a pointer to a checkpoint names one of the job's that was not rejected", `
		SELECT j.id FROM jobs j LEFT JOIN artifacts c ON c.id = j.latest_checkpoint_id
		WHERE j.latest_checkpoint_id IS NOT NULL
			AND (c.job_id IS DISTINCT FROM j.id OR c.type <> 'CHECKPOINT' OR c.rejected_at IS NOT NULL)`},
	{"an artifact is of an attempt that was issued its key", `
		SELECT r.id FROM artifacts r JOIN uploads u ON u.object_key = r.object_key
		WHERE r.attempt_id IS NOT NULL AND r.type <> 'INPUT' AND (u.attempt_id IS DISTINCT FROM r.attempt_id OR u.job_id <> r.job_id
			OR u.type <> r.type OR u.size_bytes <> r.size_bytes OR u.checksum <> r.checksum)`},
	{"a cancelled job does not complete", `
		SELECT id FROM jobs WHERE status = 'COMPLETED' AND cancel_requested_at IS NOT NULL`},
	{"no more failures count than the job may have", `
		SELECT id FROM jobs WHERE failures > max_attempts`},
	{"an account's counters are the counts of its jobs", `
		SELECT a.id FROM accounts a LEFT JOIN jobs j ON j.account_id = a.id
		GROUP BY a.id
		HAVING a.queued <> count(*) FILTER (WHERE j.status IN ('SCHEDULED', 'BLOCKED', 'QUEUED'))
			OR a.running <> count(*) FILTER (WHERE j.status IN ('ASSIGNED', 'RUNNING', 'COMPLETING'))`},
	{"a lane's counter is the count of its queued jobs", `
		SELECT coalesce(l.account_id, j.account_id) FROM account_lanes l
		FULL JOIN (SELECT account_id, lane, count(*) AS n FROM jobs WHERE status = 'QUEUED' GROUP BY 1, 2) j
			ON j.account_id = l.account_id AND j.lane = l.lane
		WHERE coalesce(l.queued, 0) <> coalesce(j.n, 0)`},
	{"a worker is as the attempt that it holds, or does not", `
		SELECT w.id FROM workers w LEFT JOIN job_attempts a ON a.worker_id = w.id AND a.ended_at IS NULL
		WHERE (a.id IS NULL AND w.status = 'BUSY') OR (a.id IS NOT NULL AND w.status NOT IN ('BUSY', 'DRAINING'))`},
	{"a key names one job", `
		SELECT idempotency_key FROM jobs WHERE idempotency_key IS NOT NULL GROUP BY account_id, idempotency_key HAVING count(*) > 1`},
	{"tenants are not mixed", `
		SELECT r.id FROM artifacts r JOIN jobs j ON j.id = r.job_id WHERE r.account_id <> j.account_id`},
}
