package jobs

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
	for _, c := range []struct {
		class      models.FailureClass
		n          int
		retryAfter *int
		expected   retryPlan
	}{
		{models.FailTransient, 1, nil, again(13 * time.Second)},
		{models.FailTransient, 2, nil, again(23 * time.Second)},
		{models.FailTransient, 3, nil, again(43 * time.Second)},
		{models.FailTransient, 6, nil, again(300 * time.Second)},
		{models.FailTransient, 19, nil, again(300 * time.Second)},
		{models.FailTimeout, 1, nil, again(13 * time.Second)},
		{models.FailProvider, 1, nil, again(30 * time.Second)},
		{models.FailProvider, 2, nil, again(23 * time.Second)},
		{models.FailRateLimited, 1, nil, again(60 * time.Second)},
		{models.FailRateLimited, 1, seconds(7), again(7 * time.Second)},
		{models.FailRateLimited, 1, seconds(0), again(0)},
		{models.FailTransient, 1, seconds(7), again(13 * time.Second)},
		{models.FailModelCrash, 2, nil, again(0)},
		{models.FailOutOfMemory, 1, nil, again(0)},
		{models.FailCheckpointCorrupt, 1, nil, again(0)},
		{models.FailPreempted, 1, nil, retryPlan{}},
		{models.FailWorkerLost, 99, nil, retryPlan{}},
		{models.FailInvalidInput, 1, nil, never},
		{models.FailContentPolicy, 1, nil, never},
		{models.FailUnauthorized, 1, nil, never},
		{models.FailBudget, 1, nil, never},
		{models.FailPoison, 1, nil, never},
		{models.FailDependency, 1, nil, never},
	} {
		require.Equal(t, c.expected, planRetry(c.class, c.n, 20, c.retryAfter, jitter), "%s, failure %d", c.class, c.n)
	}
	for _, class := range []models.FailureClass{models.FailTransient, models.FailRateLimited, models.FailModelCrash} {
		require.True(t, planRetry(class, 3, 3, nil, jitter).never, "%s: the last attempt", class)
		require.False(t, planRetry(class, 2, 3, nil, jitter).never, "%s: one attempt is left", class)
	}
	for range 1000 {
		require.Less(t, randomJitter(), backoffJitter)
	}
}

func seconds(n int) *int { return &n }

func TestPlanPool(t *testing.T) {
	t.Parallel()

	queue := func(lane models.Tier, depth int, gpuSeconds float64) []models.QueueDemand {
		return []models.QueueDemand{{Lane: lane, Depth: depth, GPUSeconds: gpuSeconds}}
	}
	for name, c := range map[string]struct {
		demand  Demand
		workers int
		reason  string
	}{
		"nothing to do":                     {Demand{Max: 4}, 0, "0 waiting jobs and 0 busy need 0 workers."},
		"the pool's least":                  {Demand{Min: 2, Max: 4, Busy: 1}, 2, "0 waiting jobs and 1 busy need 1 workers; the pool keeps 2."},
		"the pool's most":                   {Demand{Max: 4, Busy: 1, Queues: queue(models.TierCritical, 4, 4)}, 4, "4 waiting jobs and 1 busy need 5 workers; the pool may have 4."},
		"at once: a worker each":            {Demand{Max: 9, Queues: queue(models.TierCritical, 3, 900)}, 3, "3 waiting jobs and 0 busy need 3 workers."},
		"ENTERPRISE: 30 s":                  {Demand{Max: 9, Queues: queue(models.TierEnterprise, 10, 61)}, 3, "10 waiting jobs and 0 busy need 3 workers."},
		"never more workers than jobs":      {Demand{Max: 9, Queues: queue(models.TierEnterprise, 1, 3000)}, 1, "1 waiting job and 0 busy need 1 workers."},
		"BATCH has time: one":               {Demand{Max: 9, Queues: queue(models.TierBatch, 100, 1e6)}, 1, "100 waiting jobs and 0 busy need 1 workers."},
		"lanes add up":                      {Demand{Max: 9, Busy: 2, Queues: append(queue(models.TierFree, 5, 1200), queue(models.TierPro, 5, 240)...)}, 6, "10 waiting jobs and 2 busy need 6 workers."},
		"idle and booting ones are no need": {Demand{Max: 9, Idle: 3, Booting: 2}, 0, "0 waiting jobs and 0 busy need 0 workers."},
	} {
		require.Equal(t, plan{c.workers, c.reason}, planPool(c.demand), name)
	}
}
