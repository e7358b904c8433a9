package jobs

import (
	"fmt"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models/budgets"
	"github.com/shopspring/decimal"
)

// BudgetName names a budget in a sentence: the account's, or a user's.
func BudgetName(user string, period budgets.Period, limit decimal.Decimal) string {
	whose := "the account"
	if user != "" {
		whose = fmt.Sprintf("the user %q", user)
	}
	return fmt.Sprintf("the budget of %s for a %s (%s)", whose, strings.ToLower(string(period)), text.USD(limit.InexactFloat64()))
}

// BudgetSpent says that a budget is spent, without a period at the end.
func BudgetSpent(h *budgets.Hold) string {
	return BudgetName(h.UserID, h.Period, h.LimitUSD) + " is spent"
}

// maxBudget is the highest limit of a budget, in US dollars.
var maxBudget = decimal.NewFromInt(1_000_000_000)

// CheckBudgetLimit returns INVALID_INPUT in a field for an amount that no budget can have.
func CheckBudgetLimit(field string, usd decimal.Decimal) error {
	// Amounts with huge exponents take for ever to compare.
	if usd.Exponent() > 20 || usd.NumDigits() > 60 || usd.Exponent() < -60 || usd.IsNegative() || usd.GreaterThan(maxBudget) {
		return apierror.Invalid(field, "%s must be from 0 to %s US dollars.", field, maxBudget)
	}
	if !usd.Equal(usd.Round(10)) {
		return apierror.Invalid(field, "%s can have at most ten decimals.", field)
	}
	return nil
}
