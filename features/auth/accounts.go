package auth

import (
	"cmp"
	"context"
	"slices"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/cron"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/budgets"
	"github.com/shopspring/decimal"
	"github.com/uptrace/bun"
)

// Accounts manages the customers' accounts, for operators.
type Accounts struct {
	DB       *bun.DB
	Notifier *change.Notifier
}

// AccountInput is the desired state of an account. A nil field keeps its value. For a new
// account, nil limits are those of its tier (see Policies).
type AccountInput struct {
	// ID is the id of a new account, with which a repeated Create returns the first one; "" is a
	// new id. Update ignores it.
	ID   models.AccountID
	Name *string
	Tier *models.Tier
	// MaxQueued and MaxRunning limit how many of its jobs may wait and run at once.
	// SubmitsPerMinute limits its submits. Each is 0 to 1,000,000.
	MaxQueued, MaxRunning, SubmitsPerMinute *int
	// Weight is its share of each lane, relative to the other accounts: 0.01 to 100.
	Weight *float64
	// DraftsKeptHours is how long drafts are kept that complete from now on: 1 to 2,160 hours.
	// Only an ADMIN may set it.
	DraftsKeptHours *int
	// TimeZone is the IANA name of the zone in which its days and months begin.
	TimeZone *string
	// MonthlyBudgetUSD is its hard budget for a month, as of budget.Budgets.
	MonthlyBudgetUSD *decimal.Decimal
}

// maxLimit bounds each limit of an account.
const maxLimit = 1_000_000

// maxDraftsKept bounds how long drafts are kept, in hours: 90 days.
const maxDraftsKept = 90 * 24

// List lists the accounts, newest first.
func (a *Accounts) List(ctx context.Context, p jobs.Principal, of paging.Request) (*paging.Page[*models.Account], error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	all := paging.ListOf("acc")
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	found, err := models.ListAccounts(ctx, a.DB, models.AccountID(mark), of.First+1)
	if err != nil {
		return nil, apierror.Wrap(err, "list accounts")
	}
	return paging.NewPage(all, found, of.First, func(account *models.Account) string { return string(account.ID) }), nil
}

// Get returns an account, or NOT_FOUND. It is for VIEWER.
func (a *Accounts) Get(ctx context.Context, p jobs.Principal, id models.AccountID) (*models.Account, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("account")
	}
	found, err := models.GetAccounts(ctx, a.DB, []models.AccountID{id})
	if err == nil && len(found) == 0 {
		return nil, apierror.NotFound("account")
	}
	if err != nil {
		return nil, apierror.Wrap(err, "read account %s", id)
	}
	return found[0], nil
}

// Create makes an account, which needs a name and a tier. It is for ADMIN.
func (a *Accounts) Create(ctx context.Context, p jobs.Principal, in AccountInput) (*models.Account, error) {
	if err := p.RequireAdmin(); err != nil {
		return nil, err
	}
	switch {
	case in.Name == nil:
		return nil, apierror.Invalid("name", "A new account needs a name.")
	case in.Tier == nil:
		return nil, apierror.Invalid("tier", "A new account needs a tier.")
	case in.ID != "" && !in.ID.Valid():
		return nil, apierror.Invalid("id", "This is no id of an account.")
	}
	if err := in.validate(p); err != nil {
		return nil, err
	}
	account := jobs.NewAccount(*in.Name, *in.Tier)
	account.ID = cmp.Or(in.ID, account.ID)
	in.apply(account)
	err := jobs.InTx(ctx, a.DB, func(ctx context.Context, tx bun.Tx) error {
		inserted, err := models.InsertAccountOnce(ctx, tx, account)
		if err != nil {
			return err
		}
		if !inserted {
			found, err := models.GetAccounts(ctx, tx, []models.AccountID{account.ID})
			if err != nil {
				return err
			}
			account = found[0]
			return nil
		}
		if err := in.spend(ctx, tx, account); err != nil {
			return err
		}
		return p.Audit(ctx, tx, "createAccount", string(account.ID), jobs.Payload{"after": limitsOf(account)})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "create an account")
	}
	return account, nil
}

// Update changes an account. A new tier brings its own limits, except for limits that the
// input sets or that differ from the old tier's. Accepted jobs keep their tier. A new limit
// applies from the next job on: one below the current count ends no job. An OPERATOR gets
// FORBIDDEN for the tier CRITICAL, which belongs to operators and which only an ADMIN may
// assign.
func (a *Accounts) Update(ctx context.Context, p jobs.Principal, id models.AccountID, in AccountInput) (*models.Account, error) {
	if err := p.RequireOperator(); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, apierror.NotFound("account")
	}
	if err := in.validate(p); err != nil {
		return nil, err
	}
	var account *models.Account
	var stands *models.FlowState
	err := jobs.InTx(ctx, a.DB, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if in.TimeZone != nil || in.MonthlyBudgetUSD != nil { // what it has spent is counted anew
			if in.MonthlyBudgetUSD != nil {
				if err := budgets.Begin(ctx, tx, id); err != nil {
					return err
				}
			}
			if err := models.LockSubmits(ctx, tx, id); err != nil {
				return err
			}
		}
		if account, err = models.LockAccount(ctx, tx, id); err != nil {
			return apierror.OrNotFound(err, "account")
		}
		if !account.ClosedAt.IsZero() {
			return apierror.ErrAccountClosed
		}
		before := limitsOf(account)
		in.apply(account)
		counted, err := models.UpdateAccount(ctx, tx, account)
		if err != nil {
			return err
		}
		account.Version = counted.Version
		if err := in.spend(ctx, tx, account); err != nil {
			return err
		}
		stands = change.FlowState(id, counted)
		before, after := difference(before, limitsOf(account))
		if in.MonthlyBudgetUSD != nil {
			after["monthlyBudgetUsd"] = in.MonthlyBudgetUSD.String()
		}
		return p.Audit(ctx, tx, "updateAccount", string(id), jobs.Payload{"name": account.Name, "before": before, "after": after})
	})
	if err != nil {
		return nil, apierror.Wrap(err, "update account %s", id)
	}
	a.Notifier.Account(ctx, stands)
	return account, nil
}

func (in *AccountInput) validate(p jobs.Principal) error {
	if in.Name != nil {
		if err := validName(*in.Name); err != nil {
			return err
		}
	}
	if in.Tier != nil && !slices.Contains(models.Tiers, *in.Tier) {
		return apierror.Invalid("tier", "There is no such tier.")
	}
	if in.Tier != nil && *in.Tier == models.TierCritical && !p.May(access.RoleAdmin) {
		return apierror.Forbidden("Only an ADMIN key can assign the tier CRITICAL. This key has the role %s.", p.Role)
	}
	if in.DraftsKeptHours != nil {
		if !p.May(access.RoleAdmin) {
			return apierror.Forbidden("Only an ADMIN key can change draftsKeptHours. This key has the role %s.", p.Role)
		}
		if *in.DraftsKeptHours < 1 || *in.DraftsKeptHours > maxDraftsKept {
			return apierror.Invalid("draftsKeptHours", "draftsKeptHours must be from 1 to %d; it is %d.", maxDraftsKept, *in.DraftsKeptHours)
		}
	}
	if in.Weight != nil && (!(*in.Weight >= 0.01) || *in.Weight > 100) {
		return apierror.Invalid("weight", "weight must be from 0.01 to 100; it is %g.", *in.Weight)
	}
	if in.TimeZone != nil {
		if err := cron.CheckZone("timeZone", *in.TimeZone); err != nil {
			return err
		}
	}
	if in.MonthlyBudgetUSD != nil {
		if err := jobs.CheckBudgetLimit("monthlyBudgetUsd", *in.MonthlyBudgetUSD); err != nil {
			return err
		}
	}
	for _, limit := range []struct {
		name  string
		value *int
	}{{"maxQueued", in.MaxQueued}, {"maxRunning", in.MaxRunning}, {"submitsPerMinute", in.SubmitsPerMinute}} {
		if limit.value != nil && (*limit.value < 0 || *limit.value > maxLimit) {
			return apierror.Invalid(limit.name, "%s must be from 0 to %d; it is %d.", limit.name, maxLimit, *limit.value)
		}
	}
	return nil
}

func (in *AccountInput) apply(a *models.Account) {
	if in.Tier != nil && *in.Tier != a.Tier {
		was, will := jobs.Policies[a.Tier], jobs.Policies[*in.Tier]
		a.Tier = *in.Tier
		for _, limit := range []struct {
			value     *int
			was, will int
		}{{&a.MaxQueued, was.MaxQueued, will.MaxQueued}, {&a.MaxRunning, was.MaxRunning, will.MaxRunning},
			{&a.SubmitsPerMinute, was.SubmitsPerMinute, will.SubmitsPerMinute}} {
			if *limit.value == limit.was {
				*limit.value = limit.will
			}
		}
	}
	set(&a.Name, in.Name)
	set(&a.MaxQueued, in.MaxQueued)
	set(&a.MaxRunning, in.MaxRunning)
	set(&a.SubmitsPerMinute, in.SubmitsPerMinute)
	set(&a.DraftsKeptHours, in.DraftsKeptHours)
	set(&a.Weight, in.Weight)
	set(&a.TimeZone, in.TimeZone)
}

// spend sets the monthly budget, and counts anew what an account with budgets has spent if its months begin at other
// times now. A budget that it has keeps what it does at its limit.
func (in *AccountInput) spend(ctx context.Context, tx bun.Tx, account *models.Account) error {
	if in.MonthlyBudgetUSD != nil {
		return budgets.PutMonthly(ctx, tx, account.ID, *in.MonthlyBudgetUSD)
	}
	if in.TimeZone == nil || !account.Budgeted {
		return nil
	}
	if err := budgets.Recount(ctx, tx, account.ID); err != nil {
		return err
	}
	return budgets.Reconsider(ctx, tx, account.ID)
}

func set[T any](value *T, wanted *T) {
	if wanted != nil {
		*value = *wanted
	}
}

// limitsOf returns the fields of an account that Update can change, for the audit log.
func limitsOf(a *models.Account) jobs.Payload {
	return jobs.Payload{
		"name": a.Name, "tier": a.Tier, "maxQueued": a.MaxQueued, "maxRunning": a.MaxRunning, "submitsPerMinute": a.SubmitsPerMinute,
		"draftsKeptHours": a.DraftsKeptHours, "weight": a.Weight, "timeZone": a.TimeZone,
	}
}

// difference returns the entries that differ, before and after.
func difference(before, after jobs.Payload) (was, is jobs.Payload) {
	was, is = jobs.Payload{}, jobs.Payload{}
	for name, value := range after {
		if before[name] != value {
			was[name], is[name] = before[name], value
		}
	}
	return was, is
}
