// Package costs has the pages of what jobs and machines cost, and of what hosted providers charge.
package costs

import (
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/web/console/shell"
)

// Config is what the pages read and change.
type Config struct {
	Reads   *query.Reads
	Budgets *budget.Budgets
	Prices  *pricebook.Prices
}

// controller serves the pages.
type controller struct {
	*shell.Shell
	Config
}

// Routes lists the pages.
func Routes(pages *shell.Shell, config Config) []shell.Route {
	c := &controller{Shell: pages, Config: config}
	return []shell.Route{
		{Pattern: "GET /costs", Serve: c.costs},
		{Pattern: "GET /costs.csv", Serve: c.costsFile},
		{Pattern: "GET /budgets", Serve: c.budgets},
		{Pattern: "GET /budgets/set", Serve: c.budgetAsk},
		{Pattern: "POST /budgets/set", Serve: c.budgetSet, Back: "/budgets/set"},
		{Pattern: "POST /budgets/{id}/remove", Serve: c.budgetRemove, Back: "/budgets"},
		{Pattern: "GET /costs/prices", Serve: c.prices},
		{Pattern: "POST /costs/prices", Serve: c.importPrices, Back: "/costs/prices"},
		{Pattern: "GET /costs/statement", Serve: c.statement},
	}
}
