package models

import "slices"

// Tier is the service class that a customer buys. A lane is the queue of one tier.
type Tier string

// The tiers, highest first.
const (
	TierCritical   Tier = "CRITICAL"
	TierEnterprise Tier = "ENTERPRISE"
	TierPro        Tier = "PRO"
	TierFree       Tier = "FREE"
	TierBatch      Tier = "BATCH"
)

// Tiers lists all tiers, highest first. This is the strict order of the lanes.
var Tiers = []Tier{TierCritical, TierEnterprise, TierPro, TierFree, TierBatch}

// Above reports whether t is a higher tier than u.
func (t Tier) Above(u Tier) bool { return slices.Index(Tiers, t) < slices.Index(Tiers, u) }
