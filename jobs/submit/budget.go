package submit

import (
	"context"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/samber/lo"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// purse is what is left of the hard budgets of an account and its users. The zero value bounds nothing.
type purse struct {
	now     time.Time
	budgets []*budgets.Budget
	used    map[standingKey]*budgets.Standing
}

type standingKey struct {
	budget models.BudgetID
	user   string
}

// readPurse reads the budgets of an account, as far as they bound jobs of these users ("" is none). No other submit of
// the account runs: the caller holds [models.LockSubmits].
func readPurse(ctx context.Context, db bun.IDB, account models.AccountID, users []string) (p purse, err error) {
	all, err := budgets.List(ctx, db, account, budgets.MaxRead)
	if err != nil {
		return p, fmt.Errorf("read the budgets: %w", err)
	}
	found, err := budgets.ReadStanding(ctx, db, account, lo.Without(lo.Uniq(users), ""))
	if err != nil {
		return p, fmt.Errorf("read how much of the budgets is used: %w", err)
	}
	p.budgets = lo.Filter(all, func(b *budgets.Budget, _ int) bool { return b.Hard })
	p.used = lo.KeyBy(found, func(s *budgets.Standing) standingKey { return standingKey{s.BudgetID, s.UserID} })
	return p, nil
}

// pricesFresh is how old the prices may be by which a job under a budget is judged.
const pricesFresh = 2 * time.Second

// LockBudget makes submits and retries of an account with budgets run one after the other, until the transaction ends. Call it
// before anything else is locked.
func LockBudget(ctx context.Context, tx bun.Tx, account models.AccountID) error {
	found, err := models.GetAccounts(ctx, tx, []models.AccountID{account})
	if err != nil || len(found) == 0 || !found[0].Budgeted {
		return apierror.Wrap(err, "read the account")
	}
	return models.LockSubmits(ctx, tx, account)
}

// CheckBudgets returns BUDGET_EXCEEDED if the hard budgets of their account have not enough left for new runs of ended
// jobs.
func CheckBudgets(ctx context.Context, tx bun.Tx, again []*models.Job, now time.Time) error {
	account := again[0].AccountID
	found, err := models.GetAccounts(ctx, tx, []models.AccountID{account})
	if err != nil || len(found) == 0 || !found[0].Budgeted {
		return apierror.Wrap(err, "read the account")
	}
	p, err := readPurse(ctx, tx, account, lo.Map(again, func(j *models.Job, _ int) string { return j.UserID }))
	if err != nil {
		return err
	}
	p.now = now
	for _, job := range again {
		if err := p.enter(job); err != nil {
			return err
		}
	}
	return nil
}

// enter reserves what a job is expected to cost, or returns BUDGET_EXCEEDED.
func (p *purse) enter(job *models.Job) error {
	var bounds []*budgets.Standing
	for _, b := range p.budgets {
		used := p.used[standingKey{b.ID, lo.Ternary(b.Scope == budgets.OfAccount, "", job.UserID)}]
		if used == nil {
			continue // it bounds another user
		}
		if bounds = append(bounds, used); job.EstimatedUSD == nil && b.Unknown == budgets.UnknownAllowed {
			continue
		}
		if err := p.exceeded(job, b, used); err != nil {
			return err
		}
	}
	if job.EstimatedUSD != nil {
		for _, used := range bounds {
			used.ReservedUSD = used.ReservedUSD.Add(*job.EstimatedUSD)
		}
	}
	return nil
}

// exceeded returns BUDGET_EXCEEDED if a budget has not enough left for a job.
func (p *purse) exceeded(job *models.Job, b *budgets.Budget, used *budgets.Standing) error {
	budget := jobs.BudgetName(used.UserID, b.Period, b.LimitUSD)
	if job.EstimatedUSD == nil {
		return apierror.New(apierror.CodeBudgetExceeded, "Nobody knows what a job of the model %s costs, since no pool or provider that can run it has a "+
			"price, and %s allows only known costs. An operator sets the pool's pricePerHourUsd or the price of the provider, or lets the budget allow unknown costs.", job.Model, budget)
	}
	if left := b.LimitUSD.Sub(used.SpentUSD).Sub(used.ReservedUSD); job.EstimatedUSD.GreaterThan(left) {
		return apierror.Later(apierror.CodeBudgetExceeded, used.EndsAt.Sub(p.now),
			"The job would cost about %s, and %s has %s left: %s is spent, and %s is kept for jobs that have not ended. It begins anew at %s.",
			usd(*job.EstimatedUSD), budget, usd(decimal.Max(left, decimal.Zero)), usd(used.SpentUSD), usd(used.ReservedUSD),
			text.MomentToSecond(used.EndsAt.UTC(), p.now))
	}
	return nil
}

func usd(amount decimal.Decimal) string { return text.USD(amount.InexactFloat64()) }
