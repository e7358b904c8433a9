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
	Queued    int       `bun:"queued"`
	Running   int       `bun:"running"`
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

// LockAccount returns an account and keeps its counters still until the
// transaction ends, or sql.ErrNoRows.
func LockAccount(ctx context.Context, tx bun.Tx, id AccountID) (*Account, error) {
	a := new(Account)
	err := tx.NewSelect().Model(a).Where("ac.id = ?", id).For("NO KEY UPDATE").Scan(ctx)
	return a, err
}

// AddToAccount changes the counters of an account.
func AddToAccount(ctx context.Context, tx bun.Tx, id AccountID, queued, running int) error {
	return mustChange(tx.NewRaw("UPDATE accounts SET queued = queued + ?, running = running + ? WHERE id = ?",
		queued, running, id).Exec(ctx))
}

// EnterLane counts one more queued job of the account in lane and returns the
// account's virtual time there. An account that was not active starts at the
// lane's own time: the least of those that are, or the greatest that was ever
// reached.
func EnterLane(ctx context.Context, tx bun.Tx, id AccountID, lane Tier) (float64, error) {
	var virtualTime float64
	err := tx.NewRaw(`
		INSERT INTO account_lanes AS l (account_id, lane, queued, virtual_time)
		VALUES (?0, ?1, 1, (
			SELECT coalesce(min(virtual_time) FILTER (WHERE queued > 0), max(virtual_time), 0)
			FROM account_lanes WHERE lane = ?1))
		ON CONFLICT (account_id, lane) DO UPDATE SET
			queued = l.queued + 1,
			virtual_time = CASE WHEN l.queued > 0 THEN l.virtual_time
				ELSE greatest(l.virtual_time, excluded.virtual_time) END
		RETURNING virtual_time`, id, lane).Scan(ctx, &virtualTime)
	return virtualTime, err
}

// LeaveLane counts one queued job less, and advances the account's virtual time
// by what it was given: estimated GPU seconds over the account's weight, or
// nothing for a job that left without being leased. It returns the new time.
func LeaveLane(ctx context.Context, tx bun.Tx, id AccountID, lane Tier, gpuSeconds float64) (float64, error) {
	var virtualTime float64
	err := tx.NewRaw(`
		UPDATE account_lanes l SET queued = l.queued - 1, virtual_time = l.virtual_time + ? / a.weight
		FROM accounts a
		WHERE l.account_id = ? AND l.lane = ? AND a.id = l.account_id
		RETURNING l.virtual_time`, gpuSeconds, id, lane).Scan(ctx, &virtualTime)
	return virtualTime, err
}
