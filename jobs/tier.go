package jobs

import (
	"time"

	"github.com/reelay/reelay/models"
)

// TierPolicy is what a tier promises and allows. Admission, the scaler and retries all read
// this table.
type TierPolicy struct {
	// WaitTarget is how long a job should wait at most; 0 means at once, and
	// NoTarget none at all.
	WaitTarget time.Duration
	// Patience is how long a job waits in the tier's lane before it moves up
	// one; 0 means that it stays.
	Patience         time.Duration
	MaxAttempts      int
	MaxQueued        int
	MaxRunning       int
	SubmitsPerMinute int
}

// SlackWait is how long jobs with slack before their finishBy wait for a running worker before they boot
// another. It is some times what a boot takes, so that they rarely boot a worker that leaves again soon,
// and much less than slack usually is.
const SlackWait = 10 * time.Minute

// NoTarget is the wait target of jobs that may wait for as long as it takes.
const NoTarget = time.Duration(-1)

// minLate is the shortest wait after which a job is late. A worker that is free takes a job
// within that time, also one whose target is 0.
const minLate = 5 * time.Second

// LateAfter returns how long jobs of each lane wait before they are late, and running jobs of
// lower lanes may be asked to give way. Lanes without a target have no late jobs.
func LateAfter() map[models.Tier]time.Duration {
	after := map[models.Tier]time.Duration{}
	for lane, policy := range Policies {
		if policy.WaitTarget != NoTarget {
			after[lane] = max(policy.WaitTarget, minLate)
		}
	}
	return after
}

// Unlimited is the lowest limit that is not enforced.
const Unlimited = 1_000_000

// Policies holds every tier's policy.
var Policies = map[models.Tier]TierPolicy{
	models.TierCritical:   {0, 0, 5, Unlimited, Unlimited, Unlimited},
	models.TierEnterprise: {30 * time.Second, 0, 5, 5_000, 200, 300},
	models.TierPro:        {2 * time.Minute, 10 * time.Minute, 3, 200, 10, 30},
	models.TierFree:       {10 * time.Minute, 15 * time.Minute, 3, 20, 1, 5},
	models.TierBatch:      {NoTarget, 6 * time.Hour, 3, 10_000, 100, 300},
}

// NewAccount is an account of that tier, with the tier's limits.
func NewAccount(name string, tier models.Tier) *models.Account {
	p := Policies[tier]
	return &models.Account{
		ID: models.NewAccountID(), Name: name, Tier: tier, Weight: 1,
		MaxQueued: p.MaxQueued, MaxRunning: p.MaxRunning, SubmitsPerMinute: p.SubmitsPerMinute, DraftsKeptHours: draftsKeptHours,
	}
}

// draftsKeptHours is how long the drafts of a new account are kept.
const draftsKeptHours = 7 * 24
