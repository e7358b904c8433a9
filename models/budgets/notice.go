package budgets

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Notice says that a part of a budget was reached.
type Notice struct {
	BudgetID models.BudgetID `bun:"budget_id" json:"budget_id"`
	// UserID is the user who reached it, or "" for the account.
	UserID string `bun:"user_id" json:"user_id,omitempty"`
	Period Period `bun:"period" json:"period"`
	Hard   bool   `bun:"hard" json:"hard"`
	// Percent is 50, 80 or 100.
	Percent  int             `bun:"percent" json:"percent"`
	SpentUSD decimal.Decimal `bun:"spent_usd" json:"spent_usd"`
	LimitUSD decimal.Decimal `bun:"limit_usd" json:"limit_usd"`
	// Begins is the day on which the period began, in the account's time zone.
	Begins string `bun:"begins" json:"period_begins"`
}

// NoticeAll is what [Settle] returns, of all users of an account: for a budget that was just set.
func NoticeAll(ctx context.Context, tx bun.Tx, account models.AccountID) ([]*Notice, error) {
	return notice(ctx, tx, account, nil)
}

// notice writes the parts of budgets that were reached for the first time in their periods: of these users, or of all who
// have spent something if users is nil.
func notice(ctx context.Context, tx bun.Tx, account models.AccountID, users []string) (due []*Notice, err error) {
	var these any
	if users != nil {
		these = postgres.TextArray(users)
	}
	err = tx.NewRaw(`
		WITH new AS (
			INSERT INTO budget_notices (budget_id, user_id, begins, percent, spent_usd)
			SELECT s.budget_id, s.user_id, s.begins, p.percent, s.spent_usd
			FROM budget_standing(?0, ?1::text[]) s JOIN budgets b ON b.id = s.budget_id CROSS JOIN (VALUES (50), (80), (100)) AS p (percent)
			WHERE s.spent_usd > 0 AND s.spent_usd * 100 >= b.limit_usd * p.percent
			ON CONFLICT DO NOTHING
			RETURNING budget_id, user_id, begins, percent, spent_usd)
		SELECT DISTINCT ON (n.budget_id, n.user_id) n.budget_id, n.user_id, n.begins::text, n.percent, n.spent_usd, b.limit_usd, b.period, b.hard
		FROM new n JOIN budgets b ON b.id = n.budget_id ORDER BY n.budget_id, n.user_id, n.percent DESC`,
		account, these).Scan(ctx, &due)
	return due, err
}

// CountReachedSQL counts the budgets of accounts of which 50, 80 and 100 percent or more are spent in the present period.
const CountReachedSQL = `
	SELECT count(*) FILTER (WHERE s.spent_usd * 100 >= b.limit_usd * 50) AS budgets_half,
		count(*) FILTER (WHERE s.spent_usd * 100 >= b.limit_usd * 80) AS budgets_near,
		count(*) FILTER (WHERE s.spent_usd >= b.limit_usd) AS budgets_spent
	FROM (SELECT DISTINCT account_id FROM budgets WHERE scope = 'ACCOUNT') a CROSS JOIN budget_standing(a.account_id, '{}') s
	JOIN budgets b ON b.id = s.budget_id
	WHERE b.scope = 'ACCOUNT' AND s.spent_usd > 0`

// ForgetNotices deletes up to limit notices of periods that are over.
func ForgetNotices(ctx context.Context, tx bun.Tx, limit int) (int, error) {
	done, err := tx.NewRaw(`
		DELETE FROM budget_notices WHERE ctid = ANY (ARRAY(SELECT ctid FROM budget_notices WHERE begins < current_date - 62 LIMIT ?))`, limit).Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}
