package costs

import (
	"context"
	"strings"

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

// mergedSQL writes the sums of rows gone without their users.
var mergedSQL = `INSERT INTO ledger_user_days (account_id, day, user_id, ` + sumColumns + `)
	SELECT account_id, day, '', sum(` + strings.ReplaceAll(sumColumns, ", ", "), sum(") + `) FROM gone GROUP BY account_id, day`

// MergeUserDays merges the sums of an account's users into one row a day without a user, for up to limit days. It
// returns for how many. While it holds its lock, no day is summed up with users that it does not see.
func MergeUserDays(ctx context.Context, tx bun.Tx, account models.AccountID, limit int) (days int, err error) {
	if _, err := tx.NewRaw("SELECT FROM ledger_closing FOR SHARE").Exec(ctx); err != nil {
		return 0, err
	}
	var gone []struct{ Day string }
	err = tx.NewRaw(`
		WITH days AS MATERIALIZED (
			SELECT DISTINCT day FROM ledger_user_days WHERE account_id = ?0 AND user_id <> '' ORDER BY day LIMIT ?1),
		gone AS (DELETE FROM ledger_user_days WHERE account_id = ?0 AND day IN (SELECT day FROM days) RETURNING *),
		kept AS (`+mergedSQL+`)
		SELECT day::text FROM days`, account, limit).Scan(ctx, &gone)
	if err != nil {
		return 0, err
	}
	return len(gone), nil
}
