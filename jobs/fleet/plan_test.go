package fleet

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestPlanPool(t *testing.T) {
	t.Parallel()

	queue := func(lane models.Tier, depth int, gpuSeconds float64) []LaneDemand {
		return []LaneDemand{{Lane: lane, Depth: depth, GPUSeconds: gpuSeconds}}
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
