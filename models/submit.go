package models

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// ReadShares returns accounts with what a submit is let in by: their tier, weight,
// rate per minute, and how many jobs they run and may.
func ReadShares(ctx context.Context, db bun.IDB, ids []AccountID) (found []*Account, err error) {
	rows, err := prepared(ctx, db, `
		SELECT id, tier, weight, submits_per_minute, running, max_running FROM accounts WHERE id = ANY ($1::uuid[])`, column(ids, uuidOf))
	err = scan(rows, err, func(rows *sql.Rows) error {
		a := new(Account)
		found = append(found, a)
		return rows.Scan(&a.ID, &a.Tier, &a.Weight, &a.SubmitsPerMinute, &a.Running, &a.MaxRunning)
	})
	return found, err
}

// LockAccounts is LockAccount for several, in the order of their ids, with what
// decides on a submit: their tier and how many jobs wait and may. now is
// PostgreSQL's clock after that.
func LockAccounts(ctx context.Context, tx bun.Tx, ids []AccountID) (locked []*Account, now time.Time, err error) {
	rows, err := prepared(ctx, tx, `
		WITH locked AS MATERIALIZED (
			SELECT id, tier, max_queued, queued FROM accounts WHERE id = ANY ($1::uuid[])
			ORDER BY id FOR NO KEY UPDATE)
		SELECT id, tier, max_queued, queued, clock_timestamp() FROM locked`, column(ids, uuidOf))
	err = scan(rows, err, func(rows *sql.Rows) error {
		a := new(Account)
		locked = append(locked, a)
		return rows.Scan(&a.ID, &a.Tier, &a.MaxQueued, &a.Queued, &now)
	})
	return locked, now, err
}

// NewJob is a job that is to be written, and what is written with it.
type NewJob struct {
	*Job
	// Event tells of its first state.
	Event *JobEvent
	// Input is its prompt, if it has one.
	Input *JobInput

	// Written is whether it is there now. VirtualTime is then its account's in the
	// line, if the job is queued.
	Written     bool
	VirtualTime float64
}

// NewJobs are jobs that one statement writes.
type NewJobs struct {
	Jobs []*NewJob
	// Ready are the outbox's messages of those that are queued.
	Ready []json.RawMessage
	// Tiers are what the jobs' accounts are taken to be of. Those of an account that
	// is of another, or has no room for all of them, are not written: unless Judged
	// says that the accounts are locked, and that this was looked at.
	Tiers  map[AccountID]Tier
	Judged bool
	// Wait waits for accounts that others have locked. Without it, their jobs are not
	// written.
	Wait bool
	// Now is PostgreSQL's clock, if it was read.
	Now time.Time
}

// insertJobsSQL enters lanes as EnterLane does, and counts as AddToAccount. An
// account that is held by others meanwhile enters at its lane's time of when the
// statement began.
const insertJobsSQL = `
	WITH locked AS MATERIALIZED (
		SELECT id, tier, queued, max_queued, running, max_running FROM accounts
		WHERE id = ANY ($32::uuid[])
		ORDER BY id FOR NO KEY UPDATE %s),
	clock AS MATERIALIZED (SELECT coalesce($34::timestamptz, clock_timestamp()) AS now FROM (SELECT count(*) FROM locked) l),
	asked AS (
		SELECT * FROM unnest(
			$1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::integer[],
			$10::text[], $11::text[], $12::text[], $13::text[], $14::bytea[], $15::integer[], $16::integer[], $17::float8[],
			$18::timestamptz[], $19::timestamptz[], $20::text[], $21::text[], $22::boolean[], $23::text[], $24::integer[],
			$25::float8[], $26::float8[], $27::bytea[], $28::bytea[], $29::text[], $30::text[])
		WITH ORDINALITY AS n (
			id, account_id, created_by, type, model, status, tier, lane, priority,
			params, metadata, user_id, idempotency_key, request_digest, max_attempts, timeout_seconds, estimated_gpu_seconds,
			run_at, expires_at, retry_policy, region, require_region, callback_url, blocked_by,
			predicted_wait_seconds, predicted_seconds, ciphertext, wrapped_key, event, payload, place)),
	fitting AS (
		SELECT l.id FROM locked l
		JOIN unnest($32::uuid[], $33::text[]) AS t (id, tier) USING (id)
		JOIN (SELECT account_id AS id, count(*) AS jobs FROM asked GROUP BY account_id) n USING (id)
		WHERE $35 OR l.tier = t.tier AND l.queued + n.jobs <= l.max_queued),
	written AS (
		INSERT INTO jobs (
			id, account_id, created_by, type, model, status, tier, lane, priority,
			params, metadata, user_id, idempotency_key, request_digest, max_attempts, timeout_seconds, estimated_gpu_seconds,
			run_at, expires_at, retry_policy, region, require_region, callback_url, blocked_by,
			predicted_wait_seconds, predicted_seconds, event_seq, created_at, queued_at)
		SELECT id, account_id, created_by, type, model, status, tier, lane, priority,
			params::jsonb, metadata::jsonb, nullif(user_id, ''), nullif(idempotency_key, ''), request_digest, max_attempts, timeout_seconds,
			estimated_gpu_seconds, run_at, expires_at, retry_policy::jsonb, nullif(region, ''), require_region, nullif(callback_url, ''),
			blocked_by, predicted_wait_seconds, predicted_seconds, 1, (SELECT now FROM clock), CASE WHEN status = 'QUEUED' THEN (SELECT now FROM clock) END
		FROM asked WHERE account_id IN (SELECT id FROM fitting) ORDER BY place
		ON CONFLICT (idempotency_key, account_id) WHERE idempotency_key IS NOT NULL DO NOTHING
		RETURNING id, account_id, status, lane, queue_order),
	prompts AS (
		INSERT INTO job_inputs (job_id, run, ciphertext, wrapped_key)
		SELECT id, 1, ciphertext, wrapped_key FROM asked JOIN written USING (id) WHERE ciphertext IS NOT NULL),
	events AS (
		INSERT INTO job_events (job_id, seq, run, type, payload, created_at)
		SELECT id, 1, 1, event, payload::jsonb, (SELECT now FROM clock) FROM asked JOIN written USING (id)),
	messages AS (
		INSERT INTO outbox (kind, payload)
		SELECT 'job.ready', ready::jsonb FROM unnest($31::text[]) AS m (ready) WHERE EXISTS (SELECT FROM written)),
	counted AS (
		UPDATE accounts a SET queued = a.queued + n.jobs, version = a.version + 1
		FROM (SELECT account_id, count(*) AS jobs FROM written GROUP BY account_id) n WHERE a.id = n.account_id),
	entered AS (
		INSERT INTO account_lanes AS l (account_id, lane, promoted, queued, virtual_time, capped, begins_at)
		SELECT n.account_id, n.lane, false, n.jobs, lane_time(n.lane, false), a.running >= a.max_running, n.first
		FROM (SELECT account_id, lane, count(*) AS jobs, min(queue_order) AS first FROM written WHERE status = 'QUEUED' GROUP BY account_id, lane) n
		JOIN locked a ON a.id = n.account_id
		ON CONFLICT (account_id, lane, promoted) DO UPDATE SET
			queued = l.queued + excluded.queued, begins_at = least(l.begins_at, excluded.begins_at),
			virtual_time = CASE WHEN l.queued > 0 THEN l.virtual_time ELSE greatest(l.virtual_time, excluded.virtual_time) END
		RETURNING account_id, lane, virtual_time)
	SELECT w.id, w.queue_order, coalesce(e.virtual_time, 0), (SELECT now FROM clock)
	FROM written w LEFT JOIN entered e USING (account_id, lane)`

// InsertJobs writes new jobs in the lanes of their tiers, with their first events,
// counts them on their accounts, and notes which were written and what the database
// chose for those. Not written are those of accounts that are not as was taken, see
// NewJobs, or that others have locked, unless Wait is set, and those whose idempotency key was used before. It locks the accounts
// in the order of their ids.
func InsertJobs(ctx context.Context, db bun.IDB, n NewJobs) error {
	all := n.Jobs
	for _, j := range all { // another try of it may have been undone
		j.Written, j.CreatedAt = false, time.Time{}
	}
	accounts, tiers := make([]AccountID, 0, len(n.Tiers)), make([]Tier, 0, len(n.Tiers))
	for id, tier := range n.Tiers {
		accounts, tiers = append(accounts, id), append(tiers, tier)
	}
	how := "SKIP LOCKED"
	if n.Wait {
		how = ""
	}
	rows, err := prepared(ctx, db, fmt.Sprintf(insertJobsSQL, how),
		column(all, func(j *NewJob) *[16]byte { return uuidOf(j.ID) }),
		column(all, func(j *NewJob) *[16]byte { return uuidOf(j.AccountID) }),
		column(all, func(j *NewJob) *[16]byte { return uuidOf(j.CreatedBy) }),
		column(all, func(j *NewJob) string { return j.Type }),
		column(all, func(j *NewJob) string { return j.Model }),
		column(all, func(j *NewJob) string { return string(j.Status) }),
		column(all, func(j *NewJob) string { return string(j.Tier) }),
		column(all, func(j *NewJob) string { return string(j.Lane) }),
		column(all, func(j *NewJob) int { return j.Priority }),
		column(all, func(j *NewJob) string { return string(j.Params) }),
		column(all, func(j *NewJob) *string { return nullable(string(j.Metadata)) }),
		column(all, func(j *NewJob) string { return j.UserID }),
		column(all, func(j *NewJob) string { return j.IdempotencyKey }),
		column(all, func(j *NewJob) []byte { return j.RequestDigest }),
		column(all, func(j *NewJob) int { return j.MaxAttempts }),
		column(all, func(j *NewJob) int { return j.TimeoutSeconds }),
		column(all, func(j *NewJob) float64 { return j.EstimatedGPUSeconds }),
		column(all, func(j *NewJob) *time.Time { return nullTime(j.RunAt) }),
		column(all, func(j *NewJob) *time.Time { return nullTime(j.ExpiresAt) }),
		column(all, func(j *NewJob) *string { return j.RetryPolicy.text() }),
		column(all, func(j *NewJob) string { return j.Region }),
		column(all, func(j *NewJob) bool { return j.RequireRegion }),
		column(all, func(j *NewJob) string { return j.CallbackURL }),
		column(all, func(j *NewJob) int { return j.BlockedBy }),
		column(all, func(j *NewJob) *float64 { return j.PredictedWaitSeconds }),
		column(all, func(j *NewJob) *float64 { return j.PredictedSeconds }),
		column(all, func(j *NewJob) []byte { return j.sealed().Ciphertext }),
		column(all, func(j *NewJob) []byte { return j.sealed().WrappedKey }),
		column(all, func(j *NewJob) string { return string(j.Event.Type) }),
		column(all, func(j *NewJob) string { return string(j.Event.Payload) }),
		column(n.Ready, func(m json.RawMessage) string { return string(m) }),
		column(accounts, uuidOf), column(tiers, func(t Tier) string { return string(t) }),
		nullTime(n.Now), n.Judged)
	byID := make(map[JobID]*NewJob, len(all))
	for _, j := range all {
		byID[j.ID] = j
	}
	return scan(rows, err, func(rows *sql.Rows) error {
		var id JobID
		var order int64
		var virtualTime float64
		var now time.Time
		if err := rows.Scan(&id, &order, &virtualTime, &now); err != nil {
			return err
		}
		job := byID[id]
		job.Written, job.QueueOrder, job.VirtualTime, job.CreatedAt = true, order, virtualTime, now
		job.Event.CreatedAt = now
		if job.Status == JobQueued {
			job.QueuedAt = now
		}
		return nil
	})
}

func (j *NewJob) sealed() JobInput {
	if j.Input == nil {
		return JobInput{}
	}
	return *j.Input
}

// text is the policy as the row holds it; nil if there is none.
func (p *RetryPolicy) text() *string {
	if p == nil {
		return nil
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is made of plain values only
	}
	text := string(encoded)
	return &text
}
