package costs

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Scanned is a part of the ledger in which the user was removed from the rows of an account.
type Scanned struct {
	// Last is the last row of the part. More is false at the end of the ledger.
	Last int64 `bun:"last"`
	More bool  `bun:"more"`
	// Rows are the account's rows in the part, Users those of them that had a user.
	Rows  int `bun:"rows"`
	Users int `bun:"users"`
}

// ForgetUsers removes the user from the rows of an account among the limit rows of the ledger after a row. What they
// cost stays.
func ForgetUsers(ctx context.Context, tx bun.Tx, account models.AccountID, after int64, limit int) (s Scanned, err error) {
	err = tx.NewRaw(`
		WITH part AS MATERIALIZED (SELECT id, account_id, user_id FROM ledger WHERE id > ?1 ORDER BY id LIMIT ?2),
		forgotten AS (
			UPDATE ledger SET user_id = NULL WHERE id IN (SELECT id FROM part WHERE account_id = ?0 AND user_id IS NOT NULL) RETURNING 1)
		SELECT coalesce(max(id), ?1) AS last, count(*) = ?2 AS more, count(*) FILTER (WHERE account_id = ?0) AS rows,
			(SELECT count(*) FROM forgotten) AS users FROM part`, account, after, limit).Scan(ctx, &s)
	return s, err
}

// userSums are the tables with sums of users, and their columns of time.
var userSums = []struct{ table, span string }{{byUser.name, "day"}, {byUser.months, "month"}}

// MergeUserSums merges the sums of an account's users into one row without a user for each day, and then for each month,
// of up to limit of them. It returns of how many; 0 means that no user is left. While it holds its lock, no day is summed up
// with users that it does not see.
func MergeUserSums(ctx context.Context, tx bun.Tx, account models.AccountID, limit int) (spans int, err error) {
	if _, err := tx.NewRaw("SELECT FROM ledger_closing FOR SHARE").Exec(ctx); err != nil {
		return 0, err
	}
	for _, sums := range userSums {
		err := tx.NewRaw(`
			WITH spans AS MATERIALIZED (
				SELECT DISTINCT ?2 AS span FROM ?3 WHERE account_id = ?0 AND user_id <> '' ORDER BY 1 LIMIT ?1),
			gone AS (DELETE FROM ?3 WHERE account_id = ?0 AND ?2 IN (SELECT span FROM spans) RETURNING *),
			kept AS (INSERT INTO ?3 (account_id, ?2, user_id, `+sumColumns+`)
				SELECT account_id, ?2, '', `+addedSQL+` FROM gone GROUP BY account_id, ?2)
			SELECT count(*) FROM spans`, account, limit, bun.Ident(sums.span), bun.Ident(sums.table)).Scan(ctx, &spans)
		if err != nil || spans > 0 {
			return spans, err
		}
	}
	return 0, nil
}
