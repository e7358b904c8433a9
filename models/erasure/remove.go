package erasure

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// A remover deletes up to limit rows of an account, and returns how many.
type remover func(ctx context.Context, tx bun.Tx, account models.AccountID, limit int) (int, error)

// Batch is a kind of rows that are deleted in batches of up to Limit.
type Batch struct {
	Kind   Kind
	Limit  int
	Remove remover
}

const (
	rowBatch = 500
	// A workflow has up to some thousand nodes, and a bulk operation up to 100,000 items.
	workflowBatch = 20
)

// First lists what is deleted while jobs may still run.
var First = []Batch{
	{"", rowBatch, statement(`
		WITH gone AS (DELETE FROM schedule_slots WHERE ctid = ANY (ARRAY(
			SELECT s.ctid FROM schedule_slots s WHERE s.schedule_id IN (SELECT id FROM schedules WHERE account_id = ?0) LIMIT ?1)) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{Schedules, rowBatch, statement(`
		WITH gone AS (DELETE FROM schedules WHERE id IN (
			SELECT id FROM schedules WHERE account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{Deliveries, rowBatch, statement(`
		WITH gone AS (DELETE FROM webhook_deliveries WHERE id IN (
			SELECT id FROM webhook_deliveries WHERE account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
}

// Last lists what is deleted once all jobs are.
var Last = []Batch{
	{Deliveries, rowBatch, First[2].Remove},
	{"", rowBatch, statement(`
		WITH gone AS (DELETE FROM webhook_events WHERE id IN (
			SELECT id FROM webhook_events WHERE account_id = ?0 AND job_id IS NULL LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{Webhooks, rowBatch, statement(`
		WITH gone AS (DELETE FROM webhook_endpoints WHERE id IN (
			SELECT id FROM webhook_endpoints WHERE account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{Inputs, rowBatch, statement(`
		WITH gone AS (DELETE FROM artifacts WHERE id IN (
			SELECT id FROM artifacts WHERE type = 'INPUT' AND account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING object_key),
		doomed AS (INSERT INTO object_deletions (object_key) SELECT object_key FROM gone ON CONFLICT DO NOTHING)
		SELECT count(*) FROM gone`)},
	{Inputs, rowBatch, statement(`
		WITH gone AS (DELETE FROM uploads WHERE object_key IN (
			SELECT object_key FROM uploads WHERE type = 'INPUT' AND account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING object_key),
		doomed AS (INSERT INTO object_deletions (object_key) SELECT object_key FROM gone ON CONFLICT DO NOTHING)
		SELECT count(*) FROM gone`)},
	{Operations, 1, statement(`
		WITH gone AS (DELETE FROM bulk_operations WHERE id IN (
			SELECT id FROM bulk_operations WHERE account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{Budgets, rowBatch, statement(`
		WITH gone AS (DELETE FROM budgets WHERE account_id = ?0 RETURNING 1)
		SELECT count(*) FROM gone`)},
	{"", rowBatch, statement(`
		WITH gone AS (DELETE FROM purse_entries WHERE id IN (
			SELECT id FROM purse_entries WHERE account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{"", rowBatch, statement(`
		WITH gone AS (DELETE FROM purses WHERE (account_id, user_id) IN (
			SELECT account_id, user_id FROM purses WHERE account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{"", rowBatch, statement(`
		WITH gone AS (DELETE FROM arrivals WHERE account_id = ?0 RETURNING 1)
		SELECT count(*) FROM gone`)},
	{Views, rowBatch, statement(`
		WITH gone AS (DELETE FROM saved_views WHERE owner IN (
			SELECT 'key_' || id FROM api_keys WHERE account_id = ?0 UNION ALL SELECT 'mem_' || id FROM members WHERE account_id = ?0) RETURNING 1)
		SELECT count(*) FROM gone`)},
	// Rows of jobs, workers and alerts name keys, so these stay, without their names and secrets.
	{Keys, rowBatch, statement(`
		WITH gone AS (
			UPDATE api_keys SET name = '` + DeletedKey + `', prefix = '', member_id = NULL, last_used_at = NULL, expires_at = NULL,
				hash = sha256((gen_random_uuid() || '/' || gen_random_uuid())::bytea), revoked_at = coalesce(revoked_at, clock_timestamp())
			WHERE id IN (SELECT id FROM api_keys WHERE ` + namedKeySQL + ` LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING id),
		over AS (DELETE FROM sessions WHERE key_id IN (SELECT id FROM gone))
		SELECT count(*) FROM gone`)},
	{"", rowBatch, statement(`
		WITH gone AS (DELETE FROM invitations WHERE member_id IN (SELECT id FROM members WHERE account_id = ?0) RETURNING 1)
		SELECT count(*) FROM gone`)},
	{Members, rowBatch, statement(`
		WITH gone AS (DELETE FROM members WHERE id IN (
			SELECT id FROM members WHERE account_id = ?0 LIMIT ?1 FOR UPDATE SKIP LOCKED) RETURNING 1)
		SELECT count(*) FROM gone`)},
}

// DeletedKey is the name of a key of a deleted account.
const DeletedKey = "(deleted)"

// namedKeySQL is the condition for keys of an account that have not lost their names and secrets.
const namedKeySQL = `account_id = ?0 AND (name <> '` + DeletedKey + `' OR prefix <> '' OR member_id IS NOT NULL)`

// anyLeftSQL is the condition that the account ?0 has rows that must go. The columns of the ledger are checked by
// models/costs.
const anyLeftSQL = `
	EXISTS (SELECT FROM jobs WHERE account_id = ?0) OR EXISTS (SELECT FROM workflows WHERE account_id = ?0)
	OR EXISTS (SELECT FROM schedules WHERE account_id = ?0) OR EXISTS (SELECT FROM webhook_endpoints WHERE account_id = ?0)
	OR EXISTS (SELECT FROM webhook_deliveries WHERE account_id = ?0)
	OR EXISTS (SELECT FROM webhook_events WHERE account_id = ?0 AND job_id IS NULL)
	OR EXISTS (SELECT FROM artifacts WHERE type = 'INPUT' AND account_id = ?0)
	OR EXISTS (SELECT FROM uploads WHERE type = 'INPUT' AND account_id = ?0)
	OR EXISTS (SELECT FROM bulk_operations WHERE account_id = ?0) OR EXISTS (SELECT FROM arrivals WHERE account_id = ?0)
	OR EXISTS (SELECT FROM budgets WHERE account_id = ?0) OR EXISTS (SELECT FROM purses WHERE account_id = ?0)
	OR EXISTS (SELECT FROM purse_entries WHERE account_id = ?0)
	OR EXISTS (SELECT FROM members WHERE account_id = ?0) OR EXISTS (SELECT FROM api_keys WHERE ` + namedKeySQL + `)`

// statement returns a remover that runs a statement, whose ?0 is the account and whose ?1 is the limit.
func statement(sql string) remover {
	return func(ctx context.Context, tx bun.Tx, account models.AccountID, limit int) (n int, err error) {
		err = tx.NewRaw(sql, account, limit).Scan(ctx, &n)
		return n, err
	}
}

// RemoveWorkflows deletes some workflows of an account without live jobs, and returns how many. Their jobs follow.
func RemoveWorkflows(ctx context.Context, tx bun.Tx, account models.AccountID) (int, error) {
	return postgres.Affected(tx.NewRaw(`
		DELETE FROM workflows WHERE id IN (SELECT id FROM workflows WHERE account_id = ? LIMIT ? FOR UPDATE SKIP LOCKED)`,
		account, workflowBatch).Exec(ctx))
}
