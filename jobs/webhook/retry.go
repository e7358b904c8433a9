package webhook

import "time"

// webhookLife is for how long a delivery is tried, from its first try on.
const webhookLife = 24 * time.Hour

// webhookDelays are the waits after the first try, the second …: together just
// below webhookLife.
var webhookDelays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 10 * time.Hour,
}

// webhookJitter is how far a wait may be from the table's, as a part of it.
const webhookJitter = 0.1

// planRetry is when to try a delivery again that failed for the tries-th
// time, age after its first try: not before retryAfter, which its receiver asked
// for, and at the latest at the end of its life. jitter is from -1 to 1.
func planRetry(tries int, age, retryAfter time.Duration, jitter float64) (wait time.Duration, more bool) {
	left := webhookLife - age
	if tries > len(webhookDelays) || left <= 0 {
		return 0, false
	}
	wait = time.Duration(float64(webhookDelays[tries-1]) * (1 + webhookJitter*jitter))
	return min(max(wait, retryAfter), left), true
}

const (
	// An endpoint is disabled once every try has failed for so long, and there
	// were so many.
	webhookPatience   = 24 * time.Hour
	webhookDeadAfter  = 10
	statusGone        = 410
	webhookGiveUpMost = 1000
)

// exhausted tells whether an endpoint is to be disabled.
func exhausted(failedTries int, failing time.Duration) bool {
	return failedTries >= webhookDeadAfter && failing >= webhookPatience
}
