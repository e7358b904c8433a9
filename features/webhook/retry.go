package webhook

import "time"

// webhookLife is how long a delivery is tried, from its first try on.
const webhookLife = 24 * time.Hour

// webhookDelays are the waits after the first try, the second and so on. Together they are
// just below webhookLife.
var webhookDelays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 10 * time.Hour,
}

// webhookJitter is how much a wait may differ from the table's, as a fraction of it.
const webhookJitter = 0.1

// planRetry returns how long to wait before the next try of a delivery, and whether there is
// one. tries counts the tries that failed, age is the time since the first of them, and jitter
// is from -1 to 1. The wait is at least retryAfter, which the receiver requested, but it ends
// with the delivery's life.
func planRetry(tries int, age, retryAfter time.Duration, jitter float64) (wait time.Duration, more bool) {
	left := webhookLife - age
	if tries > len(webhookDelays) || left <= 0 {
		return 0, false
	}
	wait = time.Duration(float64(webhookDelays[tries-1]) * (1 + webhookJitter*jitter))
	return min(max(wait, retryAfter), left), true
}

const (
	// An endpoint is disabled once all of its last webhookDeadAfter or more tries failed, over
	// at least webhookPatience.
	webhookPatience   = 24 * time.Hour
	webhookDeadAfter  = 10
	statusGone        = 410
	webhookGiveUpMost = 1000
)

// exhausted reports whether an endpoint should be disabled.
func exhausted(failedTries int, failing time.Duration) bool {
	return failedTries >= webhookDeadAfter && failing >= webhookPatience
}
