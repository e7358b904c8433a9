package ui

import (
	"github.com/reelay/reelay/internal/text"
	"github.com/shopspring/decimal"
)

// USD is an amount in US dollars, which can be unknown.
func USD(amount *decimal.Decimal) string {
	if amount == nil {
		return Unknown
	}
	return text.USD(amount.InexactFloat64())
}
