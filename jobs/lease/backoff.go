package lease

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// retryPlan is what happens to a job after a failed attempt.
type retryPlan struct {
	never   bool          // the job fails
	counted bool          // it counts against the job's attempts
	delay   time.Duration // 0: at once
}

// failures is the input of planRetry.
type failures struct {
	class models.FailureClass
	// n is the number of counted failures of this run, including this one; most is the limit.
	n, most           int
	retryAfterSeconds *int
	policy            *models.RetryPolicy // nil: the table's own
}

const (
	backoffBase   = 5 * time.Second
	backoffJitter = 5 * time.Second
	backoffMax    = 300 * time.Second
	maxRetryAfter = 24 * 60 * 60
)

// final reports whether a failure of this class is never retried.
func final(class models.FailureClass) bool {
	switch class {
	case models.FailInvalidInput, models.FailContentPolicy, models.FailUnauthorized, models.FailBudget,
		models.FailPoison, models.FailDependency, models.FailRejected:
		return true
	}
	return false
}

func randomJitter() time.Duration { return rand.N(backoffJitter) }

// planRetry decides by failure class.
func planRetry(f failures, jitter time.Duration) retryPlan {
	if f.class == models.FailPreempted || f.class == models.FailWorkerLost || f.class == models.FailYielded {
		return retryPlan{}
	}
	if final(f.class) {
		return retryPlan{never: true, counted: true}
	}
	plan := retryPlan{counted: true, never: f.n >= f.most, delay: backoff(f.n, jitter)}
	if f.policy != nil {
		plan.delay = policyBackoff(f.policy, f.n, jitter)
	}
	switch f.class {
	case models.FailProvider:
		if f.n == 1 && f.policy == nil {
			plan.delay = 30 * time.Second
		}
	case models.FailRateLimited:
		plan.delay = 60 * time.Second
	case models.FailModelCrash, models.FailOutOfMemory, models.FailCheckpointCorrupt, models.FailDefectiveResult:
		plan.delay = 0 // another worker may succeed
	}
	if f.retryAfterSeconds == nil {
		return plan
	}
	switch asked := time.Duration(*f.retryAfterSeconds) * time.Second; f.class {
	case models.FailRateLimited:
		plan.delay = asked
	case models.FailProvider, models.FailEndpoint:
		plan.delay = max(plan.delay, asked)
	}
	return plan
}

// backoff is min(5 s · 2ⁿ + jitter, 300 s).
func backoff(n int, jitter time.Duration) time.Duration {
	return grown(backoffBase, n, jitter, backoffMax)
}

// policyBackoff returns the delay of the client's policy: the initial delay each time (FIXED), or
// the initial delay doubled with each failure, up to the maximum. The jitter is at most half the
// initial delay.
func policyBackoff(p *models.RetryPolicy, n int, jitter time.Duration) time.Duration {
	initial, most := 2*backoffBase, backoffMax
	if p.InitialDelaySeconds != nil {
		initial = jobs.Seconds(*p.InitialDelaySeconds)
	}
	if p.MaxDelaySeconds != nil {
		most = jobs.Seconds(*p.MaxDelaySeconds)
	}
	jitter = min(jitter, initial/2)
	if p.Backoff == models.BackoffFixed {
		n = 1
	}
	return grown(initial, n-1, jitter, most)
}

// grown returns min(base · 2ⁿ + jitter, most).
func grown(base time.Duration, n int, jitter, most time.Duration) time.Duration {
	return time.Duration(math.Min(math.Ldexp(float64(base), n)+float64(jitter), float64(most)))
}
