package erasure

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// live is the condition for jobs that have not ended.
const live = `status IN ('SCHEDULED', 'BLOCKED', 'QUEUED', 'ASSIGNED', 'RUNNING', 'COMPLETING')`

// ListToCancel returns up to limit jobs of an account that have not ended and that nobody has cancelled.
func ListToCancel(ctx context.Context, db bun.IDB, account models.AccountID, limit int) (ids []models.JobID, err error) {
	err = db.NewRaw(`SELECT id FROM jobs WHERE account_id = ? AND `+live+` AND cancel_requested_at IS NULL LIMIT ?`, account, limit).
		Scan(ctx, &ids)
	return ids, err
}

// HasLive reports whether an account has jobs that have not ended.
func HasLive(ctx context.Context, db bun.IDB, account models.AccountID) (found bool, err error) {
	err = db.NewRaw(`SELECT EXISTS (SELECT FROM jobs WHERE account_id = ? AND `+live+`)`, account).Scan(ctx, &found)
	return found, err
}

// CountJobs counts the jobs of an account, and those of them that have not ended. It stops at limit.
func CountJobs(ctx context.Context, db bun.IDB, account models.AccountID, limit int) (all, unfinished int, err error) {
	err = db.NewRaw(`
		SELECT (SELECT count(*) FROM (SELECT FROM jobs WHERE account_id = ?0 LIMIT ?1) a),
			(SELECT count(*) FROM (SELECT FROM jobs WHERE account_id = ?0 AND `+live+` LIMIT ?1) l)`, account, limit).Scan(ctx, &all, &unfinished)
	return all, unfinished, err
}

// LockJobs locks up to limit ended jobs of an account. It leaves out those that others have locked, and those on which
// a hosted provider may still work.
func LockJobs(ctx context.Context, tx bun.Tx, account models.AccountID, limit int) (ids []models.JobID, err error) {
	err = tx.NewRaw(`
		SELECT id FROM jobs j WHERE account_id = ? AND status IN ('COMPLETED', 'FAILED', 'CANCELLED')
			AND NOT EXISTS (SELECT FROM provider_slots s WHERE s.job_id = j.id AND s.expires_at > clock_timestamp())
		LIMIT ? FOR UPDATE OF j SKIP LOCKED`, account, limit).Scan(ctx, &ids)
	return ids, err
}

// EndDrafts ends the time for which locked drafts are kept: see models.WasteDrafts.
func EndDrafts(ctx context.Context, tx bun.Tx, ids []models.JobID) error {
	_, err := tx.NewRaw("UPDATE jobs SET kept_until = clock_timestamp() WHERE id IN (?) AND kept_until > clock_timestamp()", bun.List(ids)).
		Exec(ctx)
	return err
}

// CountObjects counts the objects of locked jobs, issued keys included.
func CountObjects(ctx context.Context, tx bun.Tx, ids []models.JobID) (n int, err error) {
	err = tx.NewRaw(`
		SELECT count(*) FROM (SELECT object_key FROM artifacts WHERE job_id IN (?0) UNION SELECT object_key FROM uploads WHERE job_id IN (?0)) o`,
		bun.List(ids)).Scan(ctx, &n)
	return n, err
}

// CountKept counts what is kept of an account: entries of the audit log about it, and pools that are dedicated to it.
func CountKept(ctx context.Context, db bun.IDB, account models.AccountID) (kept map[Kind]int, err error) {
	var audit, pools int
	err = db.NewRaw(`
		SELECT (SELECT count(*) FROM audit_log WHERE target = 'acc_' || ?0::uuid),
			(SELECT count(*) FROM pools WHERE ?0::uuid = ANY (accounts) AND deleted_at IS NULL)`, account).Scan(ctx, &audit, &pools)
	return map[Kind]int{Audit: audit, Pools: pools}, err
}
