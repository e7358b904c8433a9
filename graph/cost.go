package graph

import (
	"context"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/costs"
	"github.com/shopspring/decimal"
)

// costOfAttempt returns what an attempt cost, without amounts if it has not ended.
func costOfAttempt(ctx context.Context, attempt *models.Attempt) (costs.Cost, error) {
	job, err := load(ctx).Jobs.Load(ctx, attempt.JobID)
	if err != nil || job == nil {
		return costs.Cost{}, err
	}
	of, err := load(ctx).Costs.Load(ctx, job)
	if err != nil || of.Attempts[attempt.ID] == nil {
		return costs.Cost{}, err
	}
	return *of.Attempts[attempt.ID], nil
}

// dollars returns an amount as GraphQL has it, or nil if it is unknown.
func dollars(amount *decimal.Decimal) *float64 {
	if amount == nil {
		return nil
	}
	return new(amount.InexactFloat64())
}
