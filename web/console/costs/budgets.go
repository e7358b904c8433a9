package costs

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/shopspring/decimal"
)

// budgetList is the view of the budgets.
type budgetList struct {
	Rows []*budget.Budget
	Now  time.Time
}

func (c *controller) budgets(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	found, err := c.Budgets.List(r.Context(), p, models.AccountID(r.URL.Query().Get("account")))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, budgetsPage(&budgetList{Rows: found, Now: time.Now()}))
}

// budgetForm is the view of the form of a budget.
type budgetForm struct {
	Values url.Values
	Errors map[string]string
}

// is reports whether a field has a value. The first value of a choice is its default.
func (f *budgetForm) is(field, value string, first bool) bool {
	return f.Values.Get(field) == value || first && f.Values.Get(field) == ""
}

func (c *controller) budgetAsk(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, budgetFormPage(&budgetForm{Values: r.URL.Query()}))
}

func (c *controller) budgetSet(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	f := &budgetForm{Values: r.PostForm, Errors: map[string]string{}}
	in := budget.Input{
		UserID: strings.TrimSpace(f.Values.Get("userId")), EachUser: f.Values.Get("of") == "each", Period: budgets.Period(f.Values.Get("period")),
		Soft: f.Values.Get("kind") == "soft", AtLimit: budgets.AtLimit(f.Values.Get("atLimit")), Unknown: budgets.Unknown(f.Values.Get("unknown")),
	}
	if f.Values.Get("of") != "user" {
		in.UserID = ""
	} else if in.UserID == "" {
		f.Errors["userId"] = "Give the user."
	}
	var err error
	if in.LimitUSD, err = decimal.NewFromString(strings.TrimSpace(f.Values.Get("limitUsd"))); err != nil {
		f.Errors["limitUsd"] = "This must be a number of US dollars."
	}
	if in.AccountID, err = c.Budgets.AccountNamed(r.Context(), p, strings.TrimSpace(f.Values.Get("account"))); err == nil && len(f.Errors) == 0 {
		_, err = c.Budgets.Set(r.Context(), p, in)
	}
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused) && refused.Field != "":
		f.Errors[refused.Field] = refused.Message
	case err != nil:
		return err
	}
	if len(f.Errors) > 0 {
		return shell.Render(w, r, http.StatusUnprocessableEntity, budgetFormPage(f))
	}
	return c.Done(w, r, "/budgets", "The budget is set.")
}

func (c *controller) budgetRemove(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := c.Budgets.Remove(r.Context(), p, models.BudgetID(r.PathValue("id"))); err != nil {
		return err
	}
	return c.Done(w, r, "/budgets", "The budget is removed. What it held back starts.")
}

// of says whose budget it is.
func of(b *budget.Budget) string {
	switch b.Scope {
	case budgets.OfUser:
		return "user " + b.UserID
	case budgets.OfEachUser:
		return "each user"
	}
	return "the account"
}

// kind says what a budget does.
func kind(b *budget.Budget) string {
	switch {
	case !b.Hard:
		return "only notifies"
	case b.AtLimit == budgets.LimitCancels:
		return "refuses submits, cancels waiting jobs"
	}
	return "refuses submits, lets jobs wait"
}

// change is the address of the form that changes a budget.
func change(b *budget.Budget) string {
	values := url.Values{"account": {string(b.AccountID)}, "userId": {b.UserID}, "period": {string(b.Period)}, "limitUsd": {b.LimitUSD.String()},
		"atLimit": {string(b.AtLimit)}, "unknown": {string(b.Unknown)}}
	switch b.Scope {
	case budgets.OfUser:
		values.Set("of", "user")
	case budgets.OfEachUser:
		values.Set("of", "each")
	}
	if !b.Hard {
		values.Set("kind", "soft")
	}
	return "/budgets/set?" + values.Encode()
}

// level is the state of a meter: how close the budget is to its limit.
func level(percent float64) string {
	switch {
	case percent >= 100:
		return "failed"
	case percent >= 80:
		return "paused"
	}
	return "running"
}

// marks are what is kept for jobs that have not ended, on top of what is spent.
func marks(u *budget.Use) []ui.Mark {
	if u.ReservedUSD.IsZero() {
		return nil
	}
	return []ui.Mark{{Percent: min(u.Percent()+u.ReservedPercent(), 100), Title: "with " + ui.USD(&u.ReservedUSD) + " reserved for jobs that have not ended"}}
}
