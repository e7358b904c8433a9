package models

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// Account is a customer.
type Account struct {
	bun.BaseModel `bun:"table:accounts,alias:ac"`

	ID               AccountID `bun:"id,pk"`
	Name             string    `bun:"name"`
	Tier             Tier      `bun:"tier"`
	MaxQueued        int       `bun:"max_queued"`
	MaxRunning       int       `bun:"max_running"`
	SubmitsPerMinute int       `bun:"submits_per_minute"`
	// DraftsKeptHours is how long its drafts are kept, counted from their completion.
	DraftsKeptHours int `bun:"drafts_kept_hours,nullzero,default:168"`
	// Weight is the account's share of each lane, relative to the others.
	Weight float64 `bun:"weight"`
	// TimeZone is the IANA name of the zone in which its days and months begin.
	TimeZone string `bun:"time_zone,nullzero,default:'UTC'"`
	// Budgeted means that it has budgets.
	Budgeted bool `bun:"budgeted"`
	// Queued counts the waiting jobs, Running the jobs that workers hold.
	Queued  int `bun:"queued"`
	Running int `bun:"running"`
	// Version grows with every change of the counters.
	Version   int64     `bun:"version"`
	CreatedAt time.Time `bun:"created_at,nullzero,default:now()"`
	// ClosedAt is since when the account is being deleted, DeletedAt since when it is. They are zero for others.
	ClosedAt  time.Time `bun:"closed_at,nullzero"`
	DeletedAt time.Time `bun:"deleted_at,nullzero"`
}

// InsertAccount writes a new account.
func InsertAccount(ctx context.Context, db bun.IDB, a *Account) error {
	_, err := db.NewInsert().Model(a).Exec(ctx)
	return err
}

// InsertAccountOnce writes a new account. It returns false if the id is taken.
func InsertAccountOnce(ctx context.Context, db bun.IDB, a *Account) (bool, error) {
	done, err := db.NewInsert().Model(a).On("CONFLICT (id) DO NOTHING").Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

// GetAccounts returns the accounts with these ids, in no particular order.
func GetAccounts(ctx context.Context, db bun.IDB, ids []AccountID) ([]*Account, error) {
	var accounts []*Account
	err := db.NewSelect().Model(&accounts).Where("ac.id IN (?)", bun.List(ids)).Scan(ctx)
	return accounts, err
}

// FindAccountByName returns the oldest account with the name that is not being deleted, or sql.ErrNoRows.
func FindAccountByName(ctx context.Context, db bun.IDB, name string) (*Account, error) {
	a := new(Account)
	err := db.NewSelect().Model(a).Where("ac.name = ? AND ac.closed_at IS NULL", name).Order("ac.id").Limit(1).Scan(ctx)
	return a, err
}

// ListAccounts returns the accounts that are not deleted, newest first. If before is set, only older ones.
func ListAccounts(ctx context.Context, db bun.IDB, before AccountID, limit int) ([]*Account, error) {
	var accounts []*Account
	q := db.NewSelect().Model(&accounts).Where("ac.deleted_at IS NULL").Order("ac.id DESC").Limit(int64(limit))
	if before != "" {
		q = q.Where("ac.id < ?", before)
	}
	err := q.Scan(ctx)
	return accounts, err
}

// LockAccount returns an account and locks its counters until the transaction ends. It returns
// sql.ErrNoRows for an unknown id.
func LockAccount(ctx context.Context, tx bun.Tx, id AccountID) (*Account, error) {
	a := new(Account)
	err := tx.NewSelect().Model(a).Where("ac.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return a, err
}

// Counted is the result of a change of an account's counters.
type Counted struct {
	Version int64 `bun:"version"`
	// Capped reports whether the account is at its running limit, WasCapped whether it was
	// before the change.
	Capped    bool `bun:"capped"`
	WasCapped bool `bun:"was_capped"`
}

// UpdateAccount writes the fields of a locked account that an operator can change. The account
// leaves or re-enters its lines as its new running limit requires.
func UpdateAccount(ctx context.Context, tx bun.Tx, a *Account) (Counted, error) {
	var counted Counted
	err := tx.NewRaw(`
		WITH was AS (SELECT running >= max_running AS capped FROM accounts WHERE id = ?0)
		UPDATE accounts SET name = ?1, tier = ?2, max_queued = ?3, max_running = ?4, submits_per_minute = ?5, drafts_kept_hours = ?6, weight = ?7, time_zone = ?8,
			version = version + 1
		WHERE id = ?0
		RETURNING version, running >= max_running AS capped, (SELECT capped FROM was) AS was_capped`,
		a.ID, a.Name, a.Tier, a.MaxQueued, a.MaxRunning, a.SubmitsPerMinute, a.DraftsKeptHours, a.Weight, a.TimeZone).Scan(ctx, &counted)
	return counted, err
}
