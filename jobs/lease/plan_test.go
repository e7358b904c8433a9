package lease

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestPlanRetry(t *testing.T) {
	t.Parallel()

	const jitter = 3 * time.Second
	again := func(delay time.Duration) retryPlan { return retryPlan{counted: true, delay: delay} }
	never := retryPlan{never: true, counted: true}
	fixed := &models.RetryPolicy{Backoff: models.BackoffFixed, InitialDelaySeconds: new(2.0)}
	doubled := &models.RetryPolicy{Backoff: models.BackoffExponential, InitialDelaySeconds: new(20.0), MaxDelaySeconds: new(70.0)}
	for _, c := range []struct {
		class      models.FailureClass
		n          int
		retryAfter *int
		policy     *models.RetryPolicy
		expected   retryPlan
	}{
		{models.FailTransient, 1, nil, nil, again(13 * time.Second)},
		{models.FailTransient, 2, nil, nil, again(23 * time.Second)},
		{models.FailTransient, 3, nil, nil, again(43 * time.Second)},
		{models.FailTransient, 6, nil, nil, again(300 * time.Second)},
		{models.FailTransient, 19, nil, nil, again(300 * time.Second)},
		{models.FailTransient, 1, nil, &models.RetryPolicy{}, again(13 * time.Second)},
		{models.FailTransient, 1, nil, fixed, again(3 * time.Second)},
		{models.FailTransient, 9, nil, fixed, again(3 * time.Second)},
		{models.FailTransient, 1, nil, doubled, again(23 * time.Second)},
		{models.FailTransient, 2, nil, doubled, again(43 * time.Second)},
		{models.FailTransient, 3, nil, doubled, again(70 * time.Second)},
		{models.FailTimeout, 1, nil, nil, again(13 * time.Second)},
		{models.FailTimeout, 2, nil, doubled, again(43 * time.Second)},
		{models.FailProvider, 1, nil, nil, again(30 * time.Second)},
		{models.FailProvider, 1, nil, fixed, again(3 * time.Second)},
		{models.FailProvider, 2, nil, nil, again(23 * time.Second)},
		{models.FailRateLimited, 1, nil, nil, again(60 * time.Second)},
		{models.FailRateLimited, 1, nil, fixed, again(60 * time.Second)},
		{models.FailRateLimited, 1, new(7), nil, again(7 * time.Second)},
		{models.FailRateLimited, 1, new(0), nil, again(0)},
		{models.FailProvider, 1, new(100), nil, again(100 * time.Second)},
		{models.FailEndpoint, 1, nil, nil, again(13 * time.Second)},
		{models.FailEndpoint, 1, new(7), nil, again(13 * time.Second)},
		{models.FailEndpoint, 2, new(77), doubled, again(77 * time.Second)},
		{models.FailTransient, 1, new(7), nil, again(13 * time.Second)},
		{models.FailModelCrash, 2, nil, nil, again(0)},
		{models.FailModelCrash, 2, nil, doubled, again(0)},
		{models.FailOutOfMemory, 1, nil, nil, again(0)},
		{models.FailCheckpointCorrupt, 1, nil, nil, again(0)},
		{models.FailDefectiveResult, 1, nil, doubled, again(0)},
		{models.FailPreempted, 1, nil, doubled, retryPlan{}},
		{models.FailWorkerLost, 99, nil, nil, retryPlan{}},
		{models.FailInvalidInput, 1, nil, doubled, never},
		{models.FailContentPolicy, 1, nil, nil, never},
		{models.FailUnauthorized, 1, nil, nil, never},
		{models.FailBudget, 1, nil, nil, never},
		{models.FailPoison, 1, nil, nil, never},
		{models.FailDependency, 1, nil, nil, never},
	} {
		got := planRetry(failures{class: c.class, n: c.n, most: 20, retryAfterSeconds: c.retryAfter, policy: c.policy}, jitter)
		require.Equal(t, c.expected, got, "%s, failure %d", c.class, c.n)
	}
	for _, class := range []models.FailureClass{models.FailTransient, models.FailRateLimited, models.FailModelCrash} {
		require.True(t, planRetry(failures{class: class, n: 3, most: 3}, jitter).never, "%s: the last attempt", class)
		require.False(t, planRetry(failures{class: class, n: 2, most: 3}, jitter).never, "%s: one attempt is left", class)
	}
	for range 1000 {
		require.Less(t, randomJitter(), backoffJitter)
	}
}
