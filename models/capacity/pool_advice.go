package capacity

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// PoolAdvice is what the provider of a pool says of its spot machines. What it does not say is nil
// or zero.
type PoolAdvice struct {
	// At is when the provider was asked.
	At time.Time `json:"at"`
	// PricePerHourUSD is the list price of one machine for an hour.
	PricePerHourUSD *float64 `json:"pricePerHourUsd,omitempty"`
	// Preempted is which share of the machines that ended lately was preempted, 0 to 1. It is not
	// a rate per hour.
	Preempted *float64 `json:"preempted,omitempty"`
	// Obtainability is how likely it is to get as many machines as the pool may have, 0 to 1.
	Obtainability *float64 `json:"obtainability,omitempty"`
	// UptimeSeconds is how long most such machines are expected to run before a preemption.
	UptimeSeconds *float64 `json:"uptimeSeconds,omitempty"`
	// Problem is why the provider gave no advice, or "".
	Problem string `json:"problem,omitempty"`
}

// SetAdvice writes what the provider of a pool says of its machines.
func SetAdvice(ctx context.Context, db bun.IDB, p *Pool) error {
	_, err := db.NewUpdate().Model(p).WherePK().Column("advice").Exec(ctx)
	return err
}
