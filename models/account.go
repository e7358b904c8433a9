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
	// Weight is the account's share of each lane, relative to the others.
	Weight float64 `bun:"weight"`
	// Queued counts the jobs that wait, Running those that a worker holds.
	Queued  int `bun:"queued"`
	Running int `bun:"running"`
	// Version grows with every change of the counters.
	Version   int64     `bun:"version"`
	CreatedAt time.Time `bun:"created_at,nullzero,default:now()"`
}

// InsertAccount writes a new account.
func InsertAccount(ctx context.Context, db bun.IDB, a *Account) error {
	_, err := db.NewInsert().Model(a).Exec(ctx)
	return err
}

// GetAccounts returns the accounts of these ids, in no order.
func GetAccounts(ctx context.Context, db bun.IDB, ids []AccountID) ([]*Account, error) {
	var accounts []*Account
	err := db.NewSelect().Model(&accounts).Where("ac.id IN (?)", bun.List(ids)).Scan(ctx)
	return accounts, err
}

// FindAccountByName returns the oldest account of that name, or sql.ErrNoRows.
func FindAccountByName(ctx context.Context, db bun.IDB, name string) (*Account, error) {
	a := new(Account)
	err := db.NewSelect().Model(a).Where("ac.name = ?", name).Order("ac.id").Limit(1).Scan(ctx)
	return a, err
}

// ListAccounts returns accounts, newest first, those before one if it is given.
func ListAccounts(ctx context.Context, db bun.IDB, before AccountID, limit int) ([]*Account, error) {
	var accounts []*Account
	q := db.NewSelect().Model(&accounts).Order("ac.id DESC").Limit(int64(limit))
	if before != "" {
		q = q.Where("ac.id < ?", before)
	}
	err := q.Scan(ctx)
	return accounts, err
}

// LockAccount returns an account and keeps its counters still until the
// transaction ends, or sql.ErrNoRows.
func LockAccount(ctx context.Context, tx bun.Tx, id AccountID) (*Account, error) {
	a := new(Account)
	err := tx.NewSelect().Model(a).Where("ac.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return a, err
}

// Counted is what a change of an account's counters did.
type Counted struct {
	Version int64 `bun:"version"`
	// Capped and WasCapped tell whether the account runs as many jobs as it may,
	// and whether it did before.
	Capped    bool `bun:"capped"`
	WasCapped bool `bun:"was_capped"`
}

// AddToAccount changes the counters of an account. One that reaches its cap
// leaves its lines with it, and one that falls below returns to them.
func AddToAccount(ctx context.Context, tx bun.Tx, id AccountID, queued, running int) (Counted, error) {
	var counted Counted
	err := tx.NewRaw(`
		UPDATE accounts SET queued = queued + ?0, running = running + ?1, version = version + 1 WHERE id = ?2
		RETURNING version, running >= max_running AS capped, running - ?1 >= max_running AS was_capped`,
		queued, running, id).Scan(ctx, &counted)
	return counted, err
}

// UpdateAccount writes what an operator may change of a locked account. Its lines
// leave it or take it back as its new cap says.
func UpdateAccount(ctx context.Context, tx bun.Tx, a *Account) (Counted, error) {
	var counted Counted
	err := tx.NewRaw(`
		WITH was AS (SELECT running >= max_running AS capped FROM accounts WHERE id = ?0)
		UPDATE accounts SET name = ?1, tier = ?2, max_queued = ?3, max_running = ?4, submits_per_minute = ?5, version = version + 1
		WHERE id = ?0
		RETURNING version, running >= max_running AS capped, (SELECT capped FROM was) AS was_capped`,
		a.ID, a.Name, a.Tier, a.MaxQueued, a.MaxRunning, a.SubmitsPerMinute).Scan(ctx, &counted)
	return counted, err
}
