// Package budgets keeps what accounts and their users may spend, and how much of it is used. Triggers of jobs and of
// the ledger count that (migrations/20261129090000_budgets.tx.up.sql). Amounts are in US dollars, and days and months
// are those of the account's time zone.
package budgets

import (
	"context"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Scope says whose spending a budget bounds.
type Scope string

// The values of Scope.
const (
	OfAccount Scope = "ACCOUNT"
	OfUser    Scope = "USER"
	// OfEachUser bounds each user without a budget of their own for the period.
	OfEachUser Scope = "EACH_USER"
)

// Period is the time after which spending begins at 0 again.
type Period string

// The values of Period.
const (
	PerDay   Period = "DAY"
	PerMonth Period = "MONTH"
)

// AtLimit is what becomes of the waiting jobs once a hard budget is spent.
type AtLimit string

// The values of AtLimit.
const (
	LimitWaits   AtLimit = "WAIT" // until the next period, or until the budget is raised
	LimitCancels AtLimit = "CANCEL"
)

// Unknown is what a hard budget does with jobs whose cost is unknown.
type Unknown string

// The values of Unknown.
const (
	UnknownRefused Unknown = "REFUSE"
	UnknownAllowed Unknown = "ALLOW"
)

// Budget bounds what an account or its users spend in a period.
type Budget struct {
	bun.BaseModel `bun:"table:budgets,alias:b"`

	ID        models.BudgetID  `bun:"id,pk"`
	AccountID models.AccountID `bun:"account_id"`
	Scope     Scope            `bun:"scope"`
	// UserID is the user of OfUser, else "".
	UserID   string          `bun:"user_id"`
	Period   Period          `bun:"period"`
	LimitUSD decimal.Decimal `bun:"limit_usd"`
	// Hard budgets refuse submits above them. Others only notify.
	Hard      bool      `bun:"hard"`
	AtLimit   AtLimit   `bun:"at_limit"`
	Unknown   Unknown   `bun:"unknown"`
	CreatedAt time.Time `bun:"created_at,nullzero,default:clock_timestamp()"`
}

// Put writes a budget, or changes the one of the same account, scope, user, period and hardness. It sets the id, and
// counts anew what is used. The caller has locked the account ([models.LockSubmits], [models.LockAccount]).
func Put(ctx context.Context, tx bun.Tx, b *Budget) error {
	_, err := tx.NewRaw("UPDATE accounts SET budgeted = true WHERE id = ? AND NOT budgeted", b.AccountID).Exec(ctx)
	if err == nil {
		err = Recount(ctx, tx, b.AccountID)
	}
	if err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(b).On("CONFLICT (account_id, scope, user_id, period, hard) DO UPDATE").
		Set("limit_usd = excluded.limit_usd").Set("at_limit = excluded.at_limit").Set("unknown = excluded.unknown").Returning("id, created_at").Exec(ctx)
	if err != nil {
		return err
	}
	return Reconsider(ctx, tx, b.AccountID)
}

// Begin makes a transaction that sets the first budget of an account wait until no other writes jobs, and others until it
// ends: whatever jobs begin or end meanwhile would be missing in the purses. Call it before any other lock is taken.
func Begin(ctx context.Context, tx bun.Tx, account models.AccountID) error {
	var budgeted bool
	err := tx.NewRaw("SELECT coalesce((SELECT budgeted FROM accounts WHERE id = ?), true)", account).Scan(ctx, &budgeted)
	if err != nil || budgeted {
		return err
	}
	if _, err = tx.NewRaw("SET LOCAL lock_timeout = '2s'").Exec(ctx); err == nil { // others wait behind this one
		_, err = tx.NewRaw("LOCK TABLE jobs, ledger IN SHARE MODE").Exec(ctx)
	}
	return err
}

// Recount counts anew what the account and its users have spent and reserved. The caller has locked the account.
func Recount(ctx context.Context, tx bun.Tx, account models.AccountID) error {
	_, err := tx.NewRaw("SELECT open_purses(?)", account).Exec(ctx)
	return err
}

// Delete removes a budget. An account without budgets is not counted any more. The caller has locked the account.
func Delete(ctx context.Context, tx bun.Tx, b *Budget) error {
	if _, err := tx.NewRaw("DELETE FROM budgets WHERE id = ?", b.ID).Exec(ctx); err != nil {
		return err
	}
	var left bool
	err := tx.NewRaw("UPDATE accounts SET budgeted = EXISTS (SELECT FROM budgets b WHERE b.account_id = ?0) WHERE id = ?0 RETURNING budgeted",
		b.AccountID).Scan(ctx, &left)
	if err == nil && left { // another budget may bound them now
		return Reconsider(ctx, tx, b.AccountID)
	}
	for _, table := range []string{"purse_entries", "purses", "budget_holds"} {
		if err == nil {
			_, err = tx.NewRaw("DELETE FROM ? WHERE account_id = ?", bun.Name(table), b.AccountID).Exec(ctx)
		}
	}
	return err
}

// Get returns a budget, or sql.ErrNoRows.
func Get(ctx context.Context, db bun.IDB, id models.BudgetID) (*Budget, error) {
	b := new(Budget)
	return b, db.NewSelect().Model(b).Where("b.id = ?", id).Scan(ctx)
}

// List returns the budgets of an account, or of all accounts if that is "", the account's before its users'.
func List(ctx context.Context, db bun.IDB, account models.AccountID, limit int) (found []*Budget, err error) {
	q := db.NewSelect().Model(&found).Order("b.account_id", "b.scope", "b.user_id", "b.period", "b.hard DESC").Limit(int64(limit))
	if account != "" {
		q = q.Where("b.account_id = ?", account)
	}
	return found, q.Scan(ctx)
}

// Monthly returns the hard budget of an account for a month, or nil.
func Monthly(all []*Budget) *Budget {
	for _, b := range all {
		if b.Scope == OfAccount && b.Period == PerMonth && b.Hard {
			return b
		}
	}
	return nil
}

// PutMonthly sets the hard budget of an account for a month. One that it has keeps what it does at its limit and with
// unknown costs. The caller has locked the account.
func PutMonthly(ctx context.Context, tx bun.Tx, account models.AccountID, limit decimal.Decimal) error {
	all, err := List(ctx, tx, account, MaxRead)
	if err != nil {
		return err
	}
	b := &Budget{ID: models.NewBudgetID(), AccountID: account, Scope: OfAccount, Period: PerMonth, LimitUSD: limit, Hard: true,
		AtLimit: LimitWaits, Unknown: UnknownRefused}
	if was := Monthly(all); was != nil {
		b.AtLimit, b.Unknown = was.AtLimit, was.Unknown
	}
	return Put(ctx, tx, b)
}

// MaxRead is more than an account can have.
const MaxRead = 100_000
