package models

import (
	"context"
	"encoding/json"
	"time"

	"github.com/uptrace/bun"
)

// BulkAction is what a bulk operation does to each of its jobs.
type BulkAction string

const (
	BulkCancel  BulkAction = "CANCEL"
	BulkRetry   BulkAction = "RETRY"
	BulkRedrive BulkAction = "REDRIVE"
	BulkDelete  BulkAction = "DELETE"
	BulkSetTier BulkAction = "SET_TIER"
)

// Reopens tells whether the action opens a job's next run.
func (a BulkAction) Reopens() bool { return a == BulkRetry || a == BulkRedrive }

// BulkOperation is one action on every job that a filter matched when it began.
type BulkOperation struct {
	bun.BaseModel `bun:"table:bulk_operations,alias:bo"`

	ID     BulkID     `bun:"id,pk"`
	Action BulkAction `bun:"action"`
	// Filter is what was asked for; the items are what was matched.
	Filter    json.RawMessage `bun:"filter,type:jsonb"`
	Tier      Tier            `bun:"tier,nullzero"`
	PerMinute int             `bun:"per_minute"`
	// Canary is how many items come first. The others wait until CanaryOver.
	Canary     int  `bun:"canary"`
	CanaryOver bool `bun:"canary_over"`
	// Matched is how many jobs there are, of which Done and Failed are over.
	Matched int  `bun:"matched"`
	Done    int  `bun:"done"`
	Failed  int  `bun:"failed"`
	Paused  bool `bun:"paused"`
	// Who started it, with which role.
	AccountID AccountID `bun:"account_id"`
	StartedBy KeyID     `bun:"started_by"`
	Role      Role      `bun:"role"`
	// Errors are the first that there were.
	Errors []*BulkError `bun:"errors,type:jsonb"`
	// NextAt is when its pace lets the next item through.
	NextAt     time.Time `bun:"next_at,nullzero,default:clock_timestamp()"`
	CreatedAt  time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	FinishedAt time.Time `bun:"finished_at,nullzero"`
}

// BulkError is why a job was left as it is, or why the operation stopped.
type BulkError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field holds the job's id.
	Field []string `json:"field,omitempty"`
}

// MaxBulkErrors is how many errors an operation keeps.
const MaxBulkErrors = 100

// BulkItem is one job of an operation, in the run in which the filter matched it.
type BulkItem struct {
	bun.BaseModel `bun:"table:bulk_items,alias:bi"`

	OperationID BulkID    `bun:"operation_id,pk"`
	Seq         int       `bun:"seq,pk"`
	JobID       JobID     `bun:"job_id"`
	Run         int       `bun:"run"`
	State       BulkState `bun:"state"`
	// Tries is how often it went wrong through a fault of ours.
	Tries int `bun:"tries"`
}

// BulkState is how far an item is.
type BulkState string

const (
	BulkPending BulkState = "PENDING"
	BulkDone    BulkState = "DONE"
	BulkFailed  BulkState = "FAILED"
)

// InsertBulkOperation writes a new operation and reads back what the database
// chose.
func InsertBulkOperation(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return tx.NewInsert().Model(op).Returning("next_at, created_at").Scan(ctx)
}

// InsertBulkJobs makes items of the jobs that the filter matches, oldest first,
// and returns how many there are. It returns limit, and makes no items to go by,
// if there are as many or that cannot be told from looking at so many.
func InsertBulkJobs(ctx context.Context, tx bun.Tx, op BulkID, f JobFilter, limit int) (int, error) {
	r, err := f.choose(ctx, tx, "", limit)
	if err != nil {
		return 0, err
	}
	found, most := r.found(f, limit, limit)
	query := joined([]clause{found, sqlf(`,
		looked AS (SELECT count(*) AS n FROM found),
		items AS (
			INSERT INTO bulk_items (operation_id, seq, job_id, run)
			SELECT ?, row_number() OVER (ORDER BY j.id), j.id, j.run
			FROM (SELECT DISTINCT id FROM found WHERE meets) m JOIN jobs j ON j.id = m.id
			RETURNING 1)
		SELECT CASE WHEN n = ? THEN ? ELSE (SELECT count(*) FROM items) END FROM looked`, op, most, limit)}, "")
	var n int
	err = tx.NewRaw(query.sql, query.args...).Scan(ctx, &n)
	return n, err
}

// InsertBulkDeadLetters makes items of the first limit jobs whose dead letters
// the filter matches, oldest first, and returns how many there are.
func InsertBulkDeadLetters(ctx context.Context, tx bun.Tx, op BulkID, f DeadLetterFilter, limit int) (int, error) {
	matched := f.apply(tx.NewSelect().Model((*DeadLetter)(nil)).ColumnExpr("dl.job_id AS id, dl.run")).Order("dl.id").Limit(int64(limit))
	return insertBulkItems(ctx, tx, op, matched)
}

func insertBulkItems(ctx context.Context, tx bun.Tx, op BulkID, matched *bun.SelectQuery) (int, error) {
	res, err := tx.NewRaw(`
		INSERT INTO bulk_items (operation_id, seq, job_id, run)
		SELECT ?, row_number() OVER (ORDER BY m.id), m.id, m.run FROM (?) AS m`, op, matched).Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// SetBulkMatched notes how many items a new operation has. One without any is
// finished.
func SetBulkMatched(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return tx.NewRaw(`
		UPDATE bulk_operations SET matched = ?0, finished_at = CASE WHEN ?0 = 0 THEN clock_timestamp() END
		WHERE id = ?1 RETURNING *`, op.Matched, op.ID).Scan(ctx, op)
}

// CountOpenBulk counts the operations of an account that are not finished.
func CountOpenBulk(ctx context.Context, db bun.IDB, account AccountID) (int, error) {
	var n int
	err := db.NewSelect().Model((*BulkOperation)(nil)).ColumnExpr("count(*)").
		Where("bo.account_id = ? AND bo.finished_at IS NULL", account).Scan(ctx, &n)
	return n, err
}

// GetBulkOperation returns an operation, or sql.ErrNoRows.
func GetBulkOperation(ctx context.Context, db bun.IDB, id BulkID) (*BulkOperation, error) {
	op := new(BulkOperation)
	err := db.NewSelect().Model(op).Where("bo.id = ?", id).Scan(ctx)
	return op, err
}

// BulkFilter says which operations to list.
type BulkFilter struct {
	// AccountID is whose, as a client; empty is everybody's.
	AccountID AccountID
	// Open are those that are not finished.
	Open bool
}

// ListBulkOperations returns operations, newest first, that come after the given
// one (or the newest of all).
func ListBulkOperations(ctx context.Context, db bun.IDB, f BulkFilter, after BulkID, limit int) ([]*BulkOperation, error) {
	var found []*BulkOperation
	q := db.NewSelect().Model(&found).Order("bo.id DESC").Limit(int64(limit))
	if f.AccountID != "" {
		q = q.Where("bo.account_id = ? AND bo.role = ?", f.AccountID, RoleClient)
	}
	if f.Open {
		q = q.Where("bo.finished_at IS NULL")
	}
	if after != "" {
		q = q.Where("bo.id < ?", after)
	}
	err := q.Scan(ctx)
	return found, err
}

// LockBulkOperation is GetBulkOperation, and keeps the row still until the
// transaction ends.
func LockBulkOperation(ctx context.Context, tx bun.Tx, id BulkID) (*BulkOperation, error) {
	op := new(BulkOperation)
	err := tx.NewSelect().Model(op).Where("bo.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return op, err
}

// SteerBulkOperation writes what decides how a locked operation goes on.
func SteerBulkOperation(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return mustChange(tx.NewUpdate().Model(op).Column("paused", "canary_over", "next_at", "errors").WherePK().Exec(ctx))
}

// EndBulkOperation has a locked operation be over, whatever items it has left.
func EndBulkOperation(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return tx.NewRaw("UPDATE bulk_operations SET finished_at = clock_timestamp(), paused = false WHERE id = ? RETURNING *", op.ID).Scan(ctx, op)
}

// PostponeBulk lets an operation wait for so long.
func PostponeBulk(ctx context.Context, tx bun.Tx, op BulkID, wait time.Duration) error {
	return mustChange(tx.NewRaw(
		"UPDATE bulk_operations SET next_at = greatest(next_at, clock_timestamp() + make_interval(secs => ?)) WHERE id = ?",
		wait.Seconds(), op).Exec(ctx))
}

// ListDueBulk returns the operations whose pace lets an item through now, the
// longest due first.
func ListDueBulk(ctx context.Context, db bun.IDB, limit int) ([]BulkID, error) {
	var ids []BulkID
	err := db.NewRaw(`
		SELECT id FROM bulk_operations
		WHERE finished_at IS NULL AND NOT paused AND next_at <= clock_timestamp()
		ORDER BY next_at LIMIT ?`, limit).Scan(ctx, &ids)
	return ids, err
}

// BulkCanary is how an operation's first items are doing.
type BulkCanary struct {
	// Pending have not had their turn.
	Pending int `bun:"pending"`
	// Open are jobs whose new run is not over.
	Open int `bun:"open"`
	// Failed are items that failed and jobs whose new run did.
	Failed int `bun:"failed"`
}

// CheckBulkCanary looks at an operation's canary, and if its action opens a run,
// at those runs.
func CheckBulkCanary(ctx context.Context, tx bun.Tx, op *BulkOperation) (BulkCanary, error) {
	var c BulkCanary
	err := tx.NewRaw(`
		SELECT count(*) FILTER (WHERE state = 'PENDING') AS pending,
			count(*) FILTER (WHERE state = 'DONE' AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')) AS open,
			count(*) FILTER (WHERE state = 'FAILED' OR status = 'FAILED') AS failed
		FROM (
			SELECT i.state, coalesce(r.status, j.status) AS status
			FROM bulk_items i
			LEFT JOIN jobs j ON ?2 AND j.id = i.job_id AND j.run = i.run + 1
			LEFT JOIN job_runs r ON ?2 AND r.job_id = i.job_id AND r.run = i.run + 1
			WHERE i.operation_id = ?0 AND i.seq <= ?1) c`, op.ID, op.Canary, op.Action.Reopens()).Scan(ctx, &c)
	return c, err
}

// LockBulkItem returns the next of an operation's first upTo items that nobody
// works on, and keeps it until the transaction ends; or sql.ErrNoRows if there is
// none or the operation is paused or over. What went wrong before comes last.
func LockBulkItem(ctx context.Context, tx bun.Tx, op BulkID, upTo int) (*BulkItem, error) {
	item := new(BulkItem)
	err := tx.NewRaw(`
		SELECT * FROM bulk_items
		WHERE operation_id = ?0 AND state = 'PENDING' AND seq <= ?1
			AND NOT (SELECT paused OR finished_at IS NOT NULL FROM bulk_operations WHERE id = ?0)
		ORDER BY tries, seq LIMIT 1 FOR UPDATE OF bulk_items SKIP LOCKED`, op, upTo).Scan(ctx, item)
	return item, err
}

// UpdateBulkItem writes how far a locked item is.
func UpdateBulkItem(ctx context.Context, tx bun.Tx, item *BulkItem) error {
	return mustChange(tx.NewUpdate().Model(item).Column("state", "tries").WherePK().Exec(ctx))
}

// CountBulkItem counts an item that is over on its operation, which is finished
// with the last one; why is kept if there is room.
func CountBulkItem(ctx context.Context, tx bun.Tx, op BulkID, why *BulkError) error {
	failed := why != nil
	errors := []*BulkError{}
	if failed {
		errors = append(errors, why)
	}
	added, err := json.Marshal(errors)
	if err != nil {
		return err
	}
	return mustChange(tx.NewRaw(`
		UPDATE bulk_operations SET
			done = done + CASE WHEN ?1 THEN 0 ELSE 1 END,
			failed = failed + CASE WHEN ?1 THEN 1 ELSE 0 END,
			errors = CASE WHEN jsonb_array_length(errors) < ?2 THEN errors || ?3::jsonb ELSE errors END,
			finished_at = CASE WHEN finished_at IS NULL AND done + failed + 1 >= matched THEN clock_timestamp() ELSE finished_at END
		WHERE id = ?0`, op, failed, MaxBulkErrors, string(added)).Exec(ctx))
}

// DeleteOldBulk deletes up to limit items of the operation that was finished
// first, if that is longer ago than age, and with its last item the operation. It
// returns how many rows went.
func DeleteOldBulk(ctx context.Context, db bun.IDB, age time.Duration, limit int) (int, error) {
	var n int
	err := db.NewRaw(`
		WITH old AS (
			SELECT id FROM bulk_operations WHERE finished_at < clock_timestamp() - make_interval(secs => ?)
			ORDER BY finished_at LIMIT 1 FOR UPDATE SKIP LOCKED),
		few AS (
			SELECT i.operation_id, i.seq FROM bulk_items i JOIN old ON old.id = i.operation_id LIMIT ?),
		items AS (
			DELETE FROM bulk_items i USING few WHERE i.operation_id = few.operation_id AND i.seq = few.seq RETURNING 1),
		operation AS (
			DELETE FROM bulk_operations o USING old
			WHERE o.id = old.id AND NOT EXISTS (SELECT FROM few) RETURNING 1)
		SELECT (SELECT count(*) FROM items) + (SELECT count(*) FROM operation)`, age.Seconds(), limit).Scan(ctx, &n)
	return n, err
}
