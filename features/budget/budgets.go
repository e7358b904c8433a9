package budget

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/samber/lo"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Budgets sets and shows budgets.
type Budgets struct {
	DB *bun.DB
}

// Input is a budget as it should be. The budget of the same account, user, period and hardness is changed.
type Input struct {
	AccountID models.AccountID
	// UserID is the user it is of, or "". EachUser means each user without a budget of his own. With neither, it is the
	// account's.
	UserID   string
	EachUser bool
	Period   budgets.Period
	// LimitUSD is 0 to 1,000,000,000, with at most ten decimals.
	LimitUSD decimal.Decimal
	// Soft budgets only notify.
	Soft bool
	// AtLimit and Unknown are WAIT and REFUSE if they are "". They mean nothing for soft budgets.
	AtLimit budgets.AtLimit
	Unknown budgets.Unknown
}

// Budget is a budget and how much of it is used.
type Budget struct {
	budgets.Budget
	// Account is the name of its account.
	Account string
	// Use is the standing of its account or user. Under a budget of each user, it is that of the users who have used
	// the most, the first of them first.
	Use []*Use
}

// Use is how much of a budget is used in the present period.
type Use struct {
	budgets.Standing
	limit decimal.Decimal
}

// Percent is how much of the limit is spent, from 0 on.
func (u *Use) Percent() float64 { return percent(u.SpentUSD, u.limit) }

// ReservedPercent is how much of the limit is kept for jobs that have not ended.
func (u *Use) ReservedPercent() float64 { return percent(u.ReservedUSD, u.limit) }

// LeftUSD is what new jobs may cost together, at least 0.
func (u *Use) LeftUSD() decimal.Decimal {
	return decimal.Max(u.limit.Sub(u.SpentUSD).Sub(u.ReservedUSD), decimal.Zero)
}

func percent(part, limit decimal.Decimal) float64 {
	if limit.IsZero() {
		return lo.Ternary(part.IsPositive(), 100.0, 0)
	}
	return part.Div(limit).InexactFloat64() * 100
}

const (
	// MaxBudgets bounds the budgets of an account.
	MaxBudgets = 1000
	// maxListed bounds the budgets of a list.
	maxListed = 5000
	// usersShown is how many users a budget of each user shows.
	usersShown = 10
	// maxUserBytes bounds a user's id, as submits do.
	maxUserBytes = 256
)

// List returns the budgets of an account, or of all accounts if that is "". Clients see only their own.
func (s *Budgets) List(ctx context.Context, p jobs.Principal, account models.AccountID) ([]*Budget, error) {
	switch scope := p.Scope(); {
	case scope != "" && account != "" && account != scope:
		return nil, apierror.Forbidden("The budgets of other accounts are for operators and viewers.")
	case scope != "":
		account = scope
	case account != "" && !account.Valid():
		return nil, apierror.Invalid("account", "account must be the id of an account: acc_ and a UUID.")
	}
	found, err := budgets.List(ctx, s.DB, account, maxListed)
	if err != nil {
		return nil, apierror.Wrap(err, "list budgets")
	}
	return s.use(ctx, found)
}

// use adds how much of budgets is used.
func (s *Budgets) use(ctx context.Context, of []*budgets.Budget) ([]*Budget, error) {
	all := make([]*Budget, len(of))
	if len(of) == 0 {
		return all, nil
	}
	standings, err := budgets.ListStanding(ctx, s.DB, lo.Map(of, func(b *budgets.Budget, _ int) models.BudgetID { return b.ID }), usersShown)
	if err != nil {
		return nil, apierror.Wrap(err, "read how much of the budgets is used")
	}
	accounts, err := models.GetAccounts(ctx, s.DB, lo.Uniq(lo.Map(of, func(b *budgets.Budget, _ int) models.AccountID { return b.AccountID })))
	if err != nil {
		return nil, apierror.Wrap(err, "read accounts")
	}
	names := lo.SliceToMap(accounts, func(a *models.Account) (models.AccountID, string) { return a.ID, a.Name })
	byID := map[models.BudgetID]*Budget{}
	for i, b := range of {
		all[i] = &Budget{Budget: *b, Account: names[b.AccountID]}
		byID[b.ID] = all[i]
	}
	for _, standing := range standings {
		b := byID[standing.BudgetID]
		b.Use = append(b.Use, &Use{*standing, b.LimitUSD})
	}
	return all, nil
}

// Set sets a budget. Jobs that were accepted stay accepted: a limit below what is kept for them refuses new jobs only. It
// returns INVALID_INPUT for a budget that makes no sense, and CONFLICT if the account has too many.
func (s *Budgets) Set(ctx context.Context, p jobs.Principal, in Input) (*Budget, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if !in.AccountID.Valid() {
		return nil, apierror.NotFound("account")
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	b := in.budget()
	err := jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		b.ID = models.NewBudgetID()
		if err := budgets.Begin(ctx, tx, in.AccountID); err != nil {
			return err
		}
		account, err := lock(ctx, tx, in.AccountID)
		if err != nil {
			return err
		}
		before, err := budgets.List(ctx, tx, in.AccountID, MaxBudgets+1)
		if err != nil {
			return err
		}
		was, changes := lo.Find(before, func(o *budgets.Budget) bool {
			return o.Scope == b.Scope && o.UserID == b.UserID && o.Period == b.Period && o.Hard == b.Hard
		})
		if !changes && len(before) >= MaxBudgets {
			return apierror.Conflict("This account has %d budgets, which is the limit: remove some, or set one for each user.", len(before))
		}
		if err := budgets.Put(ctx, tx, b); err != nil {
			return err
		}
		due, err := budgets.NoticeAll(ctx, tx, in.AccountID)
		if err != nil {
			return err
		}
		if err := change.AnnounceBudgets(ctx, tx, in.AccountID, due); err != nil {
			return err
		}
		payload := jobs.Payload{"account": in.AccountID, "name": account.Name, "after": facts(b)}
		if changes {
			payload["before"] = facts(was)
		}
		return p.Audit(ctx, tx, "setBudget", string(b.ID), payload)
	})
	if err != nil {
		return nil, apierror.Wrap(err, "set a budget of account %s", in.AccountID)
	}
	all, err := s.use(ctx, []*budgets.Budget{b})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Remove removes a budget. What it held back starts.
func (s *Budgets) Remove(ctx context.Context, p jobs.Principal, id models.BudgetID) error {
	if err := p.RequireOperator(); err != nil {
		return err
	}
	if !id.Valid() {
		return apierror.NotFound("budget")
	}
	return apierror.Wrap(jobs.InTx(ctx, s.DB, func(ctx context.Context, tx bun.Tx) error {
		b, err := budgets.Get(ctx, tx, id)
		if err != nil {
			return apierror.OrNotFound(err, "budget")
		}
		account, err := lock(ctx, tx, b.AccountID)
		if err != nil {
			return err
		}
		if err := budgets.Delete(ctx, tx, b); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "removeBudget", string(id), jobs.Payload{"account": b.AccountID, "name": account.Name, "before": facts(b)})
	}), "remove budget %s", id)
}

// lock keeps jobs of an account from beginning and ending until the transaction ends.
func lock(ctx context.Context, tx bun.Tx, id models.AccountID) (*models.Account, error) {
	if err := models.LockSubmits(ctx, tx, id); err != nil {
		return nil, err
	}
	account, err := models.LockAccount(ctx, tx, id)
	return account, apierror.OrNotFound(err, "account")
}

func (in *Input) check() error {
	atLimits, unknowns := []budgets.AtLimit{"", budgets.LimitWaits, budgets.LimitCancels}, []budgets.Unknown{"", budgets.UnknownRefused, budgets.UnknownAllowed}
	switch {
	case in.UserID != "" && in.EachUser:
		return apierror.Invalid("eachUser", "A budget is of one user or of each user: leave out userId or eachUser.")
	case in.UserID != "" && (!text.Valid(in.UserID, 1, maxUserBytes)):
		return apierror.Invalid("userId", "userId must have 1 to %d printable characters.", maxUserBytes)
	case in.Period != budgets.PerDay && in.Period != budgets.PerMonth:
		return apierror.Invalid("period", "period must be DAY or MONTH.")
	case !slices.Contains(atLimits, in.AtLimit):
		return apierror.Invalid("atLimit", "atLimit must be WAIT or CANCEL.")
	case !slices.Contains(unknowns, in.Unknown):
		return apierror.Invalid("unknown", "unknown must be REFUSE or ALLOW.")
	}
	return jobs.CheckBudgetLimit("limitUsd", in.LimitUSD)
}

func (in *Input) budget() *budgets.Budget {
	b := &budgets.Budget{AccountID: in.AccountID, Scope: budgets.OfAccount, UserID: in.UserID, Period: in.Period, LimitUSD: in.LimitUSD,
		Hard: !in.Soft, AtLimit: cmp.Or(in.AtLimit, budgets.LimitWaits), Unknown: cmp.Or(in.Unknown, budgets.UnknownRefused)}
	switch {
	case in.EachUser:
		b.Scope = budgets.OfEachUser
	case in.UserID != "":
		b.Scope = budgets.OfUser
	}
	return b
}

// facts are what the audit log keeps of a budget.
func facts(b *budgets.Budget) jobs.Payload {
	of := jobs.Payload{"scope": b.Scope, "period": b.Period, "limitUsd": b.LimitUSD.String(), "hard": b.Hard}
	if b.UserID != "" {
		of["user"] = b.UserID
	}
	if b.Hard {
		of["atLimit"], of["unknown"] = b.AtLimit, b.Unknown
	}
	return of
}

// MonthlyOf returns the limit of the hard budget of an account for a month, or nil.
func (s *Budgets) MonthlyOf(ctx context.Context, account models.AccountID) (*decimal.Decimal, error) {
	all, err := budgets.List(ctx, s.DB, account, MaxBudgets)
	if b := budgets.Monthly(all); b != nil {
		return &b.LimitUSD, nil
	}
	return nil, apierror.Wrap(err, "read the budget")
}

// SpentThisMonth is what an account was charged since the month began in its time zone, in US dollars.
func (s *Budgets) SpentThisMonth(ctx context.Context, account models.AccountID) (decimal.Decimal, error) {
	usd, err := budgets.SpentUSD(ctx, s.DB, account)
	return usd, apierror.Wrap(err, "sum up what the account was charged")
}

// AccountNamed returns the id of an account, given by its id or its name, or INVALID_INPUT for the field account.
func (s *Budgets) AccountNamed(ctx context.Context, p jobs.Principal, which string) (models.AccountID, error) {
	if err := p.RequireOperator(); err != nil {
		return "", err
	}
	if id := models.AccountID(which); id.Valid() {
		return id, nil
	}
	found, err := models.FindAccountByName(ctx, s.DB, which)
	if errors.Is(err, sql.ErrNoRows) {
		return "", apierror.Invalid("account", "No account has the name %q.", text.Clip(text.Printable(which), 60))
	}
	if err != nil {
		return "", apierror.Wrap(err, "look for the account")
	}
	return found.ID, nil
}
