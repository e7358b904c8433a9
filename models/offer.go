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
	Tiers    []Tier      `bun:"tiers,array,nullzero,default:'{}'" json:"tiers"`
	Accounts []AccountID `bun:"accounts,array,nullzero,default:'{}'" json:"accounts"`
}

// ServesLane reports whether it takes the jobs of a lane.
func (o Offer) ServesLane(lane Tier) bool { return len(o.Tiers) == 0 || slices.Contains(o.Tiers, lane) }

// ServesAccount reports whether it takes the jobs of an account.
func (o Offer) ServesAccount(id AccountID) bool {
	return len(o.Accounts) == 0 || slices.Contains(o.Accounts, id)
}

// Key is the same for offers that take the same jobs.
func (o Offer) Key() string {
	return fmt.Sprintf("%q %q %q %q %q", o.Models, o.GPUType, o.Region, o.Tiers, o.Accounts)
}
