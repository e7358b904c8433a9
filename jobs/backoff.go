package jobs

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/models"
)

// retryPlan is what becomes of a job whose attempt failed.
type retryPlan struct {
	never   bool          // the job fails
	counted bool          // it counts against the job's attempts
	delay   time.Duration // 0: at once
}

const (
	backoffBase   = 5 * time.Second
	backoffJitter = 5 * time.Second
	backoffMax    = 300 * time.Second
	maxRetryAfter = 24 * 60 * 60
)

func randomJitter() time.Duration { return rand.N(backoffJitter) }

// planRetry decides by failure class. n is the number of counted failures of
// this run, this one among them.
func planRetry(class models.FailureClass, n, maxAttempts int, retryAfterSeconds *int, jitter time.Duration) retryPlan {
	switch class {
	case models.FailPreempted, models.FailWorkerLost:
		return retryPlan{}
	case models.FailInvalidInput, models.FailContentPolicy, models.FailUnauthorized, models.FailBudget,
		models.FailPoison, models.FailDependency:
		return retryPlan{never: true, counted: true}
	}
	plan := retryPlan{counted: true, never: n >= maxAttempts, delay: backoff(n, jitter)}
	switch class {
	case models.FailProvider:
		if n == 1 {
			plan.delay = 30 * time.Second
		}
	case models.FailRateLimited:
		plan.delay = 60 * time.Second
	case models.FailModelCrash, models.FailOutOfMemory, models.FailCheckpointCorrupt:
		plan.delay = 0 // another worker may well do it
	}
	if retryAfterSeconds != nil && class == models.FailRateLimited {
		plan.delay = time.Duration(*retryAfterSeconds) * time.Second
	}
	return plan
}

// backoff is min(5 s · 2ⁿ + jitter, 300 s).
func backoff(n int, jitter time.Duration) time.Duration {
	if n > 10 { // beyond the maximum, and before the shift overflows
		return backoffMax
	}
	return time.Duration(math.Min(float64(backoffBase<<n+jitter), float64(backoffMax)))
}
