package budgets

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/postgres"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Standing is how much of a budget is used in the present period: by its account or user, or by one user under a budget
// of each user.
type Standing struct {
	BudgetID models.BudgetID `bun:"budget_id"`
	// UserID is whose standing it is; "" for the account's.
	UserID string `bun:"user_id"`
	// SpentUSD is what ended jobs were charged, and ReservedUSD what the others are expected to cost.
	SpentUSD    decimal.Decimal `bun:"spent_usd"`
	ReservedUSD decimal.Decimal `bun:"reserved_usd"`
	// StartsAt and EndsAt are the ends of the period.
	StartsAt time.Time `bun:"starts_at"`
	EndsAt   time.Time `bun:"ends_at"`
}

// ReadStanding returns the standing of the budgets of an account: those of the account, and those of these users.
func ReadStanding(ctx context.Context, db bun.IDB, account models.AccountID, users []string) (found []*Standing, err error) {
	err = db.NewRaw("SELECT budget_id, user_id, spent_usd, reserved_usd, starts_at, ends_at FROM budget_standing(?, ?::text[])",
		account, postgres.TextArray(users)).Scan(ctx, &found)
	return found, err
}

// ListStanding returns the standing of each budget: of one of each user, that of the users who have used the most, up
// to most users. The largest use comes first.
func ListStanding(ctx context.Context, db bun.IDB, of []models.BudgetID, most int) (found []*Standing, err error) {
	err = db.NewRaw(`
		SELECT budget_id, user_id, spent_usd, reserved_usd, starts_at, ends_at FROM (
			SELECT s.*, row_number() OVER (PARTITION BY s.budget_id ORDER BY s.spent_usd + s.reserved_usd DESC, s.user_id) AS place
			FROM (SELECT DISTINCT account_id FROM budgets WHERE id = ANY (?0::uuid[])) a, budget_standing(a.account_id, NULL) s
			WHERE s.budget_id = ANY (?0::uuid[])) ranked
		WHERE place <= ?1 ORDER BY budget_id, place`, postgres.UUIDArray(of), most).Scan(ctx, &found)
	return found, err
}

// SpentUSD is what an account has spent in the present month, by the ledger.
func SpentUSD(ctx context.Context, db bun.IDB, account models.AccountID) (usd decimal.Decimal, err error) {
	err = db.NewRaw(`
		SELECT coalesce(sum(l.charged_usd), 0) FROM ledger l, accounts a
		WHERE a.id = ? AND l.account_id = a.id AND l.at >= date_trunc('month', clock_timestamp() AT TIME ZONE a.time_zone) AT TIME ZONE a.time_zone`,
		account).Scan(ctx, &usd)
	return usd, err
}
