package capacity

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// desertedSQL is whether all accounts that the pool p is dedicated to are deleted, or being deleted: then nobody can use it.
const desertedSQL = `(p.accounts <> '{}' AND NOT EXISTS (SELECT FROM accounts a WHERE a.id = ANY (p.accounts) AND a.closed_at IS NULL))`

// selectPools reads whole pools.
func selectPools(db bun.IDB, pools any) *bun.SelectQuery {
	return db.NewSelect().Model(pools).ColumnExpr("?TableColumns").ColumnExpr(desertedSQL + " AS deserted")
}

// Dedicated is a pool that is dedicated to an account.
type Dedicated struct {
	AccountID models.AccountID `bun:"account_id"`
	Name      string           `bun:"name"`
	// ServesNobody means that none of its accounts is left.
	ServesNobody bool `bun:"deserted"`
}

// ListDedicated returns the pools that are dedicated to these accounts, by name, without deleted ones.
func ListDedicated(ctx context.Context, db bun.IDB, accounts []models.AccountID) (found []Dedicated, err error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	err = db.NewRaw(`
		SELECT own.id AS account_id, p.name, `+desertedSQL+` AS deserted FROM accounts own
		JOIN pools p ON own.id = ANY (p.accounts) AND p.deleted_at IS NULL WHERE own.id IN (?) ORDER BY p.name`, bun.List(accounts)).Scan(ctx, &found)
	return found, err
}

// ListDeserted returns the names of the pools that serve nobody.
func ListDeserted(ctx context.Context, db bun.IDB) (names []string, err error) {
	err = db.NewRaw(`SELECT p.name FROM pools p WHERE p.deleted_at IS NULL AND `+desertedSQL+` ORDER BY p.name`).Scan(ctx, &names)
	return names, err
}
