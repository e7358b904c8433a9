package models

import "slices"

// Tier is the service class that a customer buys; a lane is the queue of one
// tier.
type Tier string

// The tiers, highest first.
const (
	TierCritical   Tier = "CRITICAL"
	TierEnterprise Tier = "ENTERPRISE"
	TierPro        Tier = "PRO"
	TierFree       Tier = "FREE"
	TierBatch      Tier = "BATCH"
)

// Tiers lists them all, highest first: the strict order of the lanes.
var Tiers = []Tier{TierCritical, TierEnterprise, TierPro, TierFree, TierBatch}

// Above tells whether t is a higher tier than u.
func (t Tier) Above(u Tier) bool { return slices.Index(Tiers, t) < slices.Index(Tiers, u) }
