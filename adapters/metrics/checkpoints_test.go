package metrics

import (
	"testing"

	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/stretchr/testify/require"
)

func TestCheckpointPlans(t *testing.T) {
	t.Parallel()

	m := New(Sources{Queues: none, Plans: func() []checkpoints.PoolPlan {
		return []checkpoints.PoolPlan{{Pool: "spot", Plan: &checkpoints.Plan{Model: "drill", IntervalSeconds: 85, Overhead: 0.25}}}
	}})

	require.Contains(t, scrape(t, m), `reelay_checkpoint_interval_seconds{model="drill",pool="spot"} 85`)
	require.Contains(t, scrape(t, m), `reelay_checkpoint_overhead_ratio{model="drill",pool="spot"} 0.25`)
}
