package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/samber/lo"
)

type budgetsInput struct {
	Account string `query:"account" doc:"Only the budgets of this account, for operators and viewers."`
}

type budgetsOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         budgetList
}

type budgetList struct {
	Budgets []budgetView `json:"budgets" nullable:"false"`
}

// budgetView is a budget with its use.
type budgetView struct {
	ID       models.BudgetID  `json:"id"`
	Account  models.AccountID `json:"account"`
	Scope    budgets.Scope    `json:"scope" enum:"ACCOUNT,USER,EACH_USER" doc:"Whose spending it bounds. EACH_USER bounds each user without a budget of their own for the period."`
	UserID   string           `json:"user_id,omitempty" doc:"The user, if the scope is USER."`
	Period   budgets.Period   `json:"period" enum:"DAY,MONTH" doc:"The time after which spending begins at 0 again, in the time zone of the account."`
	LimitUSD float64          `json:"limit_usd"`
	Hard     bool             `json:"hard" doc:"True if submits above it are refused with BUDGET_EXCEEDED, and no job starts once it is spent. Others only notify."`
	AtLimit  budgets.AtLimit  `json:"at_limit" enum:"WAIT,CANCEL" doc:"What becomes of waiting jobs once it is spent."`
	Unknown  budgets.Unknown  `json:"unknown" enum:"REFUSE,ALLOW" doc:"What it does with jobs whose cost is unknown."`
	Use      []budgetUse      `json:"use" nullable:"false" doc:"How much is used in the present period. With the scope EACH_USER, by the ten users who have used the most."`
}

type budgetUse struct {
	UserID      string    `json:"user_id,omitempty"`
	StartsAt    time.Time `json:"starts_at"`
	EndsAt      time.Time `json:"ends_at"`
	SpentUSD    float64   `json:"spent_usd" doc:"What jobs that completed were charged."`
	ReservedUSD float64   `json:"reserved_usd" doc:"What jobs that have not ended are expected to cost."`
	LeftUSD     float64   `json:"left_usd" doc:"What new jobs may cost together."`
	Percent     float64   `json:"percent" doc:"spent_usd in percent of the limit."`
}

func (s *service) registerBudgets(api huma.API) {
	serve(api, huma.Operation{
		OperationID: "listBudgets", Method: http.MethodGet, Path: "/api/v1/budgets", Summary: "List budgets and how much of them is used",
		Description: "Of all accounts for operators and viewers, or the account's own. Operators set them with setBudget of GraphQL, or reelay budgets set.",
	}, s.listBudgets)
}

func (s *service) listBudgets(ctx context.Context, in *budgetsInput) (*budgetsOutput, error) {
	found, err := s.Budgets.List(ctx, callerOf(ctx).Principal, models.AccountID(in.Account))
	if err != nil {
		return nil, err
	}
	views := lo.Map(found, func(b *budget.Budget, _ int) budgetView {
		return budgetView{ID: b.ID, Account: b.AccountID, Scope: b.Scope, UserID: b.UserID, Period: b.Period, LimitUSD: b.LimitUSD.InexactFloat64(),
			Hard: b.Hard, AtLimit: b.AtLimit, Unknown: b.Unknown, Use: lo.Map(b.Use, func(u *budget.Use, _ int) budgetUse {
				return budgetUse{UserID: u.UserID, StartsAt: u.StartsAt.UTC(), EndsAt: u.EndsAt.UTC(), SpentUSD: u.SpentUSD.InexactFloat64(),
					ReservedUSD: u.ReservedUSD.InexactFloat64(), LeftUSD: u.LeftUSD().InexactFloat64(), Percent: u.Percent()}
			})}
	})
	return &budgetsOutput{CacheControl: "no-store", Body: budgetList{views}}, nil
}
