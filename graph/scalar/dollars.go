package scalar

import (
	"github.com/99designs/gqlgen/graphql"
	"github.com/shopspring/decimal"
)

// MarshalDollars writes an amount as the nearest number that a double can hold.
func MarshalDollars(amount decimal.Decimal) graphql.Marshaler {
	return graphql.MarshalFloat(amount.InexactFloat64())
}

// UnmarshalDollars reads an amount.
func UnmarshalDollars(v any) (decimal.Decimal, error) {
	f, err := UnmarshalFloat(v)
	return decimal.NewFromFloat(f), err
}
