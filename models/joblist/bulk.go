package joblist

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// BulkAction is what a bulk operation does to each of its jobs.
type BulkAction string

const (
	BulkCancel      BulkAction = "CANCEL"
	BulkRetry       BulkAction = "RETRY"
	BulkRedrive     BulkAction = "REDRIVE"
	BulkDelete      BulkAction = "DELETE"
	BulkSetTier     BulkAction = "SET_TIER"
	BulkSetPriority BulkAction = "SET_PRIORITY"
)

// Reopens reports whether the action opens a job's next run.
func (a BulkAction) Reopens() bool { return a == BulkRetry || a == BulkRedrive }

// BulkOperation is one action on every job that a filter matched when the operation began.
type BulkOperation struct {
	bun.BaseModel `bun:"table:bulk_operations,alias:bo"`

	ID     models.BulkID `bun:"id,pk"`
	Action BulkAction    `bun:"action"`
	// Filter is the request. The items are the jobs that matched.
	Filter json.RawMessage `bun:"filter,type:jsonb"`
	Tier   models.Tier     `bun:"tier,nullzero"`
	// Priority is what BulkSetPriority sets, nil for the other actions.
	Priority  *int `bun:"priority"`
	PerMinute int  `bun:"per_minute"`
	// Canary is the number of items that come first. The others wait until CanaryOver.
	Canary     int  `bun:"canary"`
	CanaryOver bool `bun:"canary_over"`
	// Matched is the number of items. Done and Failed count those that ended.
	Matched int  `bun:"matched"`
	Done    int  `bun:"done"`
	Failed  int  `bun:"failed"`
	Paused  bool `bun:"paused"`
	// The operation acts as this key, with this role.
	AccountID models.AccountID `bun:"account_id"`
	StartedBy models.KeyID     `bun:"started_by"`
	Role      access.Role      `bun:"role"`
	// Errors holds the first MaxBulkErrors errors. Outcomes counts all failed items by code.
	Errors   []*BulkError   `bun:"errors,type:jsonb"`
	Outcomes map[string]int `bun:"outcomes,type:jsonb"`
	// RequestKey is the caller's idempotency key, or "".
	RequestKey string `bun:"request_key,nullzero"`
	// Skips holds the jobs that a dry run leaves out. It is not stored.
	Skips []BulkSkip `bun:"-"`
	// NextAt is when PerMinute allows the next item.
	NextAt     time.Time `bun:"next_at,nullzero,default:clock_timestamp()"`
	CreatedAt  time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
	FinishedAt time.Time `bun:"finished_at,nullzero"`
}

// BulkSkip counts jobs that match, but whose status rules the action out.
type BulkSkip struct {
	Status models.JobStatus
	Jobs   int
	// More is set if there may be more, because counting stopped.
	More bool
}

// Skip notes that a dry run leaves out n jobs of a status, or more.
func (op *BulkOperation) Skip(status models.JobStatus, n int, more bool) {
	if n > 0 {
		op.Skips = append(op.Skips, BulkSkip{status, n, more})
	}
}

// BulkOutcome is how many items of an operation failed with a code.
type BulkOutcome struct {
	Code string
	Jobs int
}

// Failures returns the number of failed items by code, the most frequent code first.
func (op *BulkOperation) Failures() []BulkOutcome {
	all := []BulkOutcome{}
	for code, n := range op.Outcomes {
		all = append(all, BulkOutcome{code, n})
	}
	slices.SortFunc(all, func(a, b BulkOutcome) int {
		return cmp.Or(b.Jobs-a.Jobs, strings.Compare(a.Code, b.Code))
	})
	return all
}

// BulkError says why a job was left unchanged, or why the operation stopped.
type BulkError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field holds the job's id.
	Field []string `json:"field,omitempty"`
	// RetryAfterSeconds is after how many seconds the same may succeed, or 0.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
}

// MaxBulkErrors is how many errors an operation keeps.
const MaxBulkErrors = 100

// BulkItem is one job of an operation, in the run in which the filter matched it.
type BulkItem struct {
	bun.BaseModel `bun:"table:bulk_items,alias:bi"`

	OperationID models.BulkID `bun:"operation_id,pk"`
	Seq         int           `bun:"seq,pk"`
	JobID       models.JobID  `bun:"job_id"`
	Run         int           `bun:"run"`
	State       BulkState     `bun:"state"`
	// Tries counts failures that were our fault.
	Tries int `bun:"tries"`
}

// BulkState is the state of an item.
type BulkState string

const (
	BulkPending BulkState = "PENDING"
	BulkDone    BulkState = "DONE"
	BulkFailed  BulkState = "FAILED"
)

// InsertBulkOperation writes a new operation and reads back the columns that the database
// fills. It returns sql.ErrNoRows if the account has an operation with the same RequestKey.
func InsertBulkOperation(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return tx.NewInsert().Model(op).
		On("CONFLICT (account_id, request_key) WHERE request_key IS NOT NULL DO NOTHING").
		Returning("next_at, created_at").Scan(ctx)
}

// GetBulkByRequest returns an account's operation with this RequestKey, or sql.ErrNoRows. It waits as [models.FindJobsByKeys]
// does.
func GetBulkByRequest(ctx context.Context, db bun.IDB, account models.AccountID, key string) (*BulkOperation, error) {
	op := new(BulkOperation)
	err := postgres.Await(db.NewSelect().Model(op).Column("bo.*")).Where("bo.account_id = ? AND bo.request_key = ?", account, key).Scan(ctx)
	return op, err
}

// InsertBulkJobs makes items of the jobs that match the filter, oldest first, and returns
// their number. If there are limit or more, or if examining limit jobs does not settle that,
// it returns limit, and its items must not be used.
func InsertBulkJobs(ctx context.Context, tx bun.Tx, op models.BulkID, f JobFilter, limit int) (int, error) {
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

// InsertBulkIDs makes items of these jobs, oldest first, as far as they match the filter, and
// returns their number.
func InsertBulkIDs(ctx context.Context, tx bun.Tx, op models.BulkID, ids []models.JobID, f JobFilter) (int, error) {
	return insertBulkItems(ctx, tx, op, tx.NewSelect().TableExpr("(?) AS j", chosenJobs(tx, ids, f)).ColumnExpr("j.id, j.run"))
}

// CountJobsByStatus counts those of these jobs that match the filter, by status.
func CountJobsByStatus(ctx context.Context, db bun.IDB, ids []models.JobID, f JobFilter) ([]StatusCount, error) {
	var counts []StatusCount
	err := db.NewSelect().TableExpr("(?) AS j", chosenJobs(db, ids, f)).
		ColumnExpr("j.status, count(*) AS jobs").Group("j.status").Scan(ctx, &counts)
	return counts, err
}

// chosenJobs selects those of these jobs that match the filter.
func chosenJobs(db bun.IDB, ids []models.JobID, f JobFilter) *bun.SelectQuery {
	matches := and(f.conditions())
	return db.NewSelect().TableExpr("jobs AS j").Column("j.id", "j.run", "j.status").
		Where("j.id = ANY (?::uuid[])", postgres.UUIDArray(ids)).Where(matches.sql, matches.args...)
}

// InsertBulkDeadLetters makes items of the first limit jobs whose dead letters match the
// filter, oldest first, and returns their number.
func InsertBulkDeadLetters(ctx context.Context, tx bun.Tx, op models.BulkID, f models.DeadLetterFilter, limit int) (int, error) {
	matched := f.Apply(tx.NewSelect().Model((*models.DeadLetter)(nil)).ColumnExpr("dl.job_id AS id, dl.run")).Order("dl.id").Limit(int64(limit))
	return insertBulkItems(ctx, tx, op, matched)
}

func insertBulkItems(ctx context.Context, tx bun.Tx, op models.BulkID, matched *bun.SelectQuery) (int, error) {
	res, err := tx.NewRaw(`
		INSERT INTO bulk_items (operation_id, seq, job_id, run)
		SELECT ?, row_number() OVER (ORDER BY m.id), m.id, m.run FROM (?) AS m`, op, matched).Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// SetBulkMatched records how many items a new operation has. An operation without items is
// finished.
func SetBulkMatched(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return tx.NewRaw(`
		UPDATE bulk_operations SET matched = ?0, finished_at = CASE WHEN ?0 = 0 THEN clock_timestamp() END
		WHERE id = ?1 RETURNING *`, op.Matched, op.ID).Scan(ctx, op)
}

// CountOpenBulk counts an account's unfinished operations.
func CountOpenBulk(ctx context.Context, db bun.IDB, account models.AccountID) (int, error) {
	var n int
	err := db.NewSelect().Model((*BulkOperation)(nil)).ColumnExpr("count(*)").
		Where("bo.account_id = ? AND bo.finished_at IS NULL", account).Scan(ctx, &n)
	return n, err
}

// GetBulkOperation returns an operation, or sql.ErrNoRows.
func GetBulkOperation(ctx context.Context, db bun.IDB, id models.BulkID) (*BulkOperation, error) {
	op := new(BulkOperation)
	err := db.NewSelect().Model(op).Where("bo.id = ?", id).Scan(ctx)
	return op, err
}

// BulkFilter says which operations to list.
type BulkFilter struct {
	// AccountID restricts the list to operations that this account started as a client. If
	// empty, all operations are listed.
	AccountID models.AccountID
	// Open restricts the list to unfinished operations.
	Open bool
}

// ListBulkOperations returns operations older than after, or from the newest if it is empty,
// newest first.
func ListBulkOperations(ctx context.Context, db bun.IDB, f BulkFilter, after models.BulkID, limit int) ([]*BulkOperation, error) {
	var found []*BulkOperation
	q := db.NewSelect().Model(&found).Order("bo.id DESC").Limit(int64(limit))
	if f.AccountID != "" {
		q = q.Where("bo.account_id = ? AND bo.role = ?", f.AccountID, access.RoleClient)
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

// LockBulkOperation is GetBulkOperation, and locks the row until the transaction ends.
func LockBulkOperation(ctx context.Context, tx bun.Tx, id models.BulkID) (*BulkOperation, error) {
	op := new(BulkOperation)
	err := tx.NewSelect().Model(op).Where("bo.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return op, err
}

// SteerBulkOperation writes the fields of a locked operation that control its further course.
func SteerBulkOperation(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return postgres.MustChange(tx.NewUpdate().Model(op).Column("paused", "canary_over", "next_at", "errors").WherePK().Exec(ctx))
}

// EndBulkOperation finishes a locked operation, even if items are left.
func EndBulkOperation(ctx context.Context, tx bun.Tx, op *BulkOperation) error {
	return tx.NewRaw("UPDATE bulk_operations SET finished_at = clock_timestamp(), paused = false WHERE id = ? RETURNING *", op.ID).Scan(ctx,
		op)
}

// PostponeBulk makes an operation wait for at least the given time.
func PostponeBulk(ctx context.Context, tx bun.Tx, op models.BulkID, wait time.Duration) error {
	return postgres.MustChange(tx.NewRaw(
		"UPDATE bulk_operations SET next_at = greatest(next_at, clock_timestamp() + make_interval(secs => ?)) WHERE id = ?",
		wait.Seconds(), op).Exec(ctx))
}

// DueBulk is an operation whose next item is due, and the account that started it.
type DueBulk struct {
	ID        models.BulkID    `bun:"id"`
	AccountID models.AccountID `bun:"account_id"`
}

// ListDueBulk returns one operation of each account whose next item is due, the longest overdue of the
// account, without these operations and accounts. The longest overdue goes first.
func ListDueBulk(ctx context.Context, db bun.IDB, without []models.BulkID, nor []models.AccountID, limit int) ([]DueBulk, error) {
	var due []DueBulk
	err := db.NewRaw(`
		SELECT id, account_id FROM (
			SELECT DISTINCT ON (account_id) id, account_id, next_at FROM bulk_operations
			WHERE finished_at IS NULL AND NOT paused AND next_at <= clock_timestamp()
				AND id <> ALL (?::uuid[]) AND account_id <> ALL (?::uuid[])
			ORDER BY account_id, next_at) first
		ORDER BY next_at LIMIT ?`, postgres.UUIDArray(without), postgres.UUIDArray(nor), limit).Scan(ctx, &due)
	return due, err
}

// BulkCanary is the progress of an operation's first items.
type BulkCanary struct {
	// Pending counts items whose turn has not come.
	Pending int `bun:"pending"`
	// Open counts jobs whose new run has not ended.
	Open int `bun:"open"`
	// Failed counts items that failed and jobs whose new run failed.
	Failed int `bun:"failed"`
}

// CheckBulkCanary counts the states of an operation's canary items and, if its action opens
// runs, of those runs.
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

// LockBulkItem locks and returns the next pending item among an operation's first upTo,
// skipping items that others have locked. Items that failed before come last. It returns
// sql.ErrNoRows if there is none, or if the operation is paused or finished.
func LockBulkItem(ctx context.Context, tx bun.Tx, op models.BulkID, upTo int) (*BulkItem, error) {
	item := new(BulkItem)
	err := tx.NewRaw(`
		SELECT * FROM bulk_items
		WHERE operation_id = ?0 AND state = 'PENDING' AND seq <= ?1
			AND NOT (SELECT paused OR finished_at IS NOT NULL FROM bulk_operations WHERE id = ?0)
		ORDER BY tries, seq LIMIT 1 FOR UPDATE OF bulk_items SKIP LOCKED`, op, upTo).Scan(ctx, item)
	return item, err
}

// UpdateBulkItem writes the state of a locked item.
func UpdateBulkItem(ctx context.Context, tx bun.Tx, item *BulkItem) error {
	return postgres.MustChange(tx.NewUpdate().Model(item).Column("state", "tries").WherePK().Exec(ctx))
}

// CountBulkItem counts an ended item on its operation, and finishes the operation with its
// last item. It keeps why, the error of a failed item, if there is room.
func CountBulkItem(ctx context.Context, tx bun.Tx, op models.BulkID, why *BulkError) error {
	failed := why != nil
	errors, code := []*BulkError{}, ""
	if failed {
		errors, code = append(errors, why), why.Code
	}
	added, err := json.Marshal(errors)
	if err != nil {
		return err
	}
	return postgres.MustChange(tx.NewRaw(`
		UPDATE bulk_operations SET
			done = done + CASE WHEN ?1 THEN 0 ELSE 1 END,
			failed = failed + CASE WHEN ?1 THEN 1 ELSE 0 END,
			outcomes = CASE WHEN ?1 THEN jsonb_set(outcomes, ARRAY[?4], to_jsonb(coalesce((outcomes ->> ?4)::integer, 0) + 1)) ELSE outcomes END,
			errors = CASE WHEN jsonb_array_length(errors) < ?2 THEN errors || ?3::jsonb ELSE errors END,
			finished_at = CASE WHEN finished_at IS NULL AND done + failed + 1 >= matched THEN clock_timestamp() ELSE finished_at END
		WHERE id = ?0`, op, failed, MaxBulkErrors, string(added), code).Exec(ctx))
}

// DeleteOldBulk takes the operation that finished first, if that was more than age ago, and
// deletes up to limit of its items, or the operation itself once no item is left. It returns
// the number of deleted rows.
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
