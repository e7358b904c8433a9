// Package erasure holds the rows of the deletion of accounts, and deletes rows of an account in batches.
package erasure

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Deletion is the deletion of an account: what was done so far, and then the report.
type Deletion struct {
	bun.BaseModel `bun:"table:account_deletions,alias:ad"`

	AccountID models.AccountID `bun:"account_id,pk"`
	// KeyID is the key of the caller who asked for it; empty for the server itself.
	KeyID     models.KeyID `bun:"key_id,nullzero"`
	StartedAt time.Time    `bun:"started_at,nullzero,default:clock_timestamp()"`
	// Deleted and Kept count rows by kind. Doing is the kind that it worked on last.
	Deleted map[Kind]int `bun:"deleted,type:jsonb"`
	Kept    map[Kind]int `bun:"kept,type:jsonb"`
	Doing   Kind         `bun:"doing"`
	// LedgerDone is the last row of the ledger of which the user was removed.
	LedgerDone int64     `bun:"ledger_done"`
	NextAt     time.Time `bun:"next_at,nullzero,default:clock_timestamp()"`
	// ProgressAt is when it last did something, other than to wait for jobs.
	ProgressAt time.Time `bun:"progress_at,nullzero,default:clock_timestamp()"`
	FinishedAt time.Time `bun:"finished_at,nullzero"`
	// ObjectsGoneAt is by when the object store has nothing of the account. It is zero until the end.
	ObjectsGoneAt time.Time `bun:"objects_gone_at,nullzero"`
}

// Insert writes a new deletion, and reads back the columns that the database fills.
func Insert(ctx context.Context, tx bun.Tx, d *Deletion) error {
	d.Deleted, d.Kept = map[Kind]int{}, map[Kind]int{}
	return tx.NewInsert().Model(d).Returning("*").Scan(ctx)
}

// Get returns the deletion of an account, or sql.ErrNoRows.
func Get(ctx context.Context, db bun.IDB, account models.AccountID) (*Deletion, error) {
	d := new(Deletion)
	err := db.NewSelect().Model(d).Where("ad.account_id = ?", account).Scan(ctx)
	return d, err
}

// List returns the newest deletions, at most limit.
func List(ctx context.Context, db bun.IDB, limit int) ([]*Deletion, error) {
	found := []*Deletion{}
	err := db.NewSelect().Model(&found).Order("ad.started_at DESC", "ad.account_id").Limit(int64(limit)).Scan(ctx)
	return found, err
}

// Next returns the account whose deletion is due first, of those that are not in except, or sql.ErrNoRows.
func Next(ctx context.Context, db bun.IDB, except []models.AccountID) (account models.AccountID, err error) {
	q := db.NewSelect().Model((*Deletion)(nil)).Column("account_id").
		Where("ad.finished_at IS NULL AND ad.next_at <= (SELECT clock_timestamp())").Order("ad.next_at").Limit(1)
	if len(except) > 0 {
		q = q.Where("ad.account_id NOT IN (?)", bun.List(except))
	}
	err = q.Scan(ctx, &account)
	return account, err
}

// Lock returns an unfinished deletion and locks it until the transaction ends. It returns sql.ErrNoRows if there is
// none, or if another process works on it.
func Lock(ctx context.Context, tx bun.Tx, account models.AccountID) (*Deletion, error) {
	d := new(Deletion)
	err := tx.NewSelect().Model(d).Where("ad.account_id = ? AND ad.finished_at IS NULL", account).For("UPDATE SKIP LOCKED").Scan(ctx)
	return d, err
}

// Save writes a locked deletion, which is due again after wait. Without wait it has made progress.
func Save(ctx context.Context, tx bun.Tx, d *Deletion, wait time.Duration) error {
	_, err := tx.NewRaw(`
		UPDATE account_deletions SET deleted = ?1, kept = ?2, doing = ?3, ledger_done = ?4,
			next_at = clock_timestamp() + make_interval(secs => ?5), progress_at = CASE WHEN ?5 = 0 THEN clock_timestamp() ELSE progress_at END
		WHERE account_id = ?0`, d.AccountID, d.Deleted, d.Kept, d.Doing, d.LedgerDone, wait.Seconds()).Exec(ctx)
	return err
}

// Finish ends a locked deletion and removes the account's name. The objects are gone objects later. It returns
// sql.ErrNoRows, and changes nothing, if the account still has rows.
func Finish(ctx context.Context, tx bun.Tx, d *Deletion, name string, objects time.Duration) error {
	if err := postgres.MustChange(tx.NewRaw(`
		UPDATE accounts SET name = ?1, deleted_at = clock_timestamp() WHERE id = ?0 AND deleted_at IS NULL AND NOT (`+anyLeftSQL+`)`,
		d.AccountID, name).Exec(ctx)); err != nil {
		return err
	}
	return tx.NewRaw(`
		UPDATE account_deletions SET deleted = ?1, kept = ?2, doing = '', finished_at = clock_timestamp(),
			objects_gone_at = clock_timestamp() + make_interval(secs => ?3)
		WHERE account_id = ?0 RETURNING *`, d.AccountID, d.Deleted, d.Kept, objects.Seconds()).Scan(ctx, d)
}
