package queues

import (
	"testing"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

func TestQueueFigures_SayWhenAQueueIsEmpty(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		depth int
		drain estimate.Drain
		want  string
	}{
		"known":  {2, estimate.Drain{Seconds: new(60.0)}, "1 min 00 s"},
		"empty":  {0, estimate.Drain{Seconds: new(0.0)}, "empty"},
		"paused": {2, estimate.Drain{LeftOut: []estimate.LeftOut{{Obstacle: estimate.ObstaclePaused, Jobs: 2}}}, "not until resumed"},
		"nothing can run": {1, estimate.Drain{LeftOut: []estimate.LeftOut{{Obstacle: estimate.ObstacleNoCapacity, Jobs: 1}}},
			"never, no worker and no pool can run it"},
		"no worker": {2, estimate.Drain{LeftOut: []estimate.LeftOut{{Obstacle: estimate.ObstacleNoWorker, Jobs: 2}}},
			"n/a, no worker that can run them is ready"},
		"halted": {2, estimate.Drain{LeftOut: []estimate.LeftOut{{Obstacle: estimate.ObstacleHalted, Jobs: 2}}},
			"not until resumed, all starts are halted"},
		"paused or stuck": {2, estimate.Drain{LeftOut: []estimate.LeftOut{{Obstacle: estimate.ObstaclePaused, Jobs: 1},
			{Obstacle: estimate.ObstacleNoCapacity, Jobs: 1}}}, "never, 1 job: paused; 1 job: no worker and no pool can run it"},
		"some are skipped": {2, estimate.Drain{Seconds: new(60.0), LeftOut: []estimate.LeftOut{{Obstacle: estimate.ObstaclePaused, Jobs: 1}}},
			"1 min 00 s, without 1 job: paused"},
	} {
		q := QueueView{QueueCount: backlog.QueueCount{Depth: c.depth}, Limit: query.QueueCapacity{Drain: c.drain}}
		require.Equal(t, c.want, q.drains(), name)
	}
}
