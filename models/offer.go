package models

import (
	"fmt"
	"slices"
)

// Offer is what decides which jobs a worker, or capacity of one kind, takes.
type Offer struct {
	Models  []string `bun:"models,array" json:"models"`
	GPUType string   `bun:"gpu_type" json:"gpu_type"`
	Region  string   `bun:"region" json:"region"`
	// Tiers are the lanes that it serves, and Accounts those whose jobs it takes, as its pool
	// says; empty means all.
	Tiers         []Tier        `bun:"tiers,array,nullzero,default:'{}'" json:"tiers"`
	Accounts      []AccountID   `bun:"accounts,array,nullzero,default:'{}'" json:"accounts"`
	CapacityClass CapacityClass `bun:"capacity_class" json:"capacity_class"`
	// PricePerHourUSD is what a worker costs now, as its pool says; nil, without a pool, is
	// unknown.
	PricePerHourUSD *float64 `bun:"price_per_hour_usd" json:"price_per_hour_usd"`
}

// ServesLane reports whether it takes the jobs of a lane.
func (o Offer) ServesLane(lane Tier) bool { return len(o.Tiers) == 0 || slices.Contains(o.Tiers, lane) }

// ServesAccount reports whether it takes the jobs of an account.
func (o Offer) ServesAccount(id AccountID) bool {
	return len(o.Accounts) == 0 || slices.Contains(o.Accounts, id)
}

// Meets reports whether it has the capacity and the price that a job needs. An unknown price
// meets no limit. A worker without a pool, or of one
// without a price, costs nothing more if it is used.
func (o Offer) Meets(n Needs) bool {
	if n == "" || n.IsHeld() {
		return n == ""
	}
	limit, cost := n.MaxPrice(), o.PricePerHourUSD
	free := cost == nil || *cost == 0
	return (!n.OnDemand() || o.CapacityClass == CapacityOnDemand) && (!n.Cheap() || o.CapacityClass == CapacitySpot || free) &&
		(limit == nil || cost != nil && *cost <= *limit)
}

// Runs reports whether it takes the jobs of a model, lane and account that need this, and that
// run in a region, or anywhere if that is "". Whether its GPU is large enough shows when a worker
// runs them.
func (o Offer) Runs(model string, lane Tier, account AccountID, n Needs, region string) bool {
	return slices.Contains(o.Models, model) && o.ServesLane(lane) && o.ServesAccount(account) && o.Meets(n) &&
		(region == "" || region == o.Region)
}

// Key is the same for offers that take the same jobs.
func (o Offer) Key() string {
	price := "?"
	if o.PricePerHourUSD != nil {
		price = fmt.Sprint(*o.PricePerHourUSD)
	}
	return fmt.Sprintf("%q %q %q %q %q %s %s", o.Models, o.GPUType, o.Region, o.Tiers, o.Accounts, o.CapacityClass, price)
}

// CapacityClass says whether the provider can take a worker's machine away.
type CapacityClass string

const (
	CapacitySpot     CapacityClass = "SPOT"
	CapacityOnDemand CapacityClass = "ON_DEMAND"
)
