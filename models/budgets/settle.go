package budgets

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/uptrace/bun"
)

// Entered returns accounts whose purses have entries to add, those first that have waited the longest.
func Entered(ctx context.Context, db bun.IDB, limit int) (found []models.AccountID, err error) {
	err = db.NewRaw("SELECT account_id FROM purse_entries GROUP BY account_id ORDER BY min(id) LIMIT ?", limit).Scan(ctx, &found)
	return found, err
}

// Settle adds the entries of an account to its purses, notes who has spent a hard budget, and returns the notices that
// are due: of each budget and user the highest part that was reached since the last call. It does nothing while another
// process settles the account.
func Settle(ctx context.Context, tx bun.Tx, account models.AccountID) (due []*Notice, err error) {
	var free bool
	if err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(hashtextextended('purses ' || ?::text, 0))", account).Scan(ctx, &free); err != nil || !free {
		return nil, err
	}
	var users []string
	err = tx.NewRaw(`
		WITH taken AS (DELETE FROM purse_entries WHERE account_id = ?0 RETURNING user_id, at, spent_usd, reserved_usd),
		local AS (
			SELECT t.user_id, (t.at AT TIME ZONE a.time_zone)::date AS day, t.spent_usd, t.reserved_usd FROM taken t, accounts a WHERE a.id = ?0
		),
		each AS (
			SELECT day, user_id, spent_usd, reserved_usd FROM local WHERE user_id <> ''
			UNION ALL SELECT day, '', spent_usd, reserved_usd FROM local
		),
		newest AS (
			SELECT e.user_id, greatest(max(e.day), max(p.day)) AS day, date_trunc('month', greatest(max(e.day), max(p.day)))::date AS month
			FROM each e LEFT JOIN purses p ON p.account_id = ?0 AND p.user_id = e.user_id GROUP BY e.user_id
		),
		sums AS (
			SELECT n.user_id, n.day, n.month, coalesce(sum(e.spent_usd) FILTER (WHERE e.day = n.day), 0) AS day_usd,
				coalesce(sum(e.spent_usd) FILTER (WHERE e.day >= n.month), 0) AS month_usd, sum(e.reserved_usd) AS reserved_usd
			FROM newest n JOIN each e USING (user_id) GROUP BY n.user_id, n.day, n.month
		)
		INSERT INTO purses AS p (account_id, user_id, month, month_usd, day, day_usd, reserved_usd)
		SELECT ?0, user_id, month, month_usd, day, day_usd, reserved_usd FROM sums ORDER BY user_id
		ON CONFLICT (account_id, user_id) DO UPDATE SET
			month = excluded.month, month_usd = excluded.month_usd + CASE WHEN p.month = excluded.month THEN p.month_usd ELSE 0 END,
			day = excluded.day, day_usd = excluded.day_usd + CASE WHEN p.day = excluded.day THEN p.day_usd ELSE 0 END,
			reserved_usd = p.reserved_usd + excluded.reserved_usd
		RETURNING user_id`, account).Scan(ctx, &users)
	if err != nil || len(users) == 0 {
		return nil, err
	}
	if _, err = tx.NewRaw("SELECT hold_spent(?, ?::text[])", account, postgres.TextArray(users)).Exec(ctx); err != nil {
		return nil, err
	}
	return notice(ctx, tx, account, users)
}
