package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/jobs/checkpoints"
)

var (
	intervalDesc = prometheus.NewDesc("reelay_checkpoint_interval_seconds",
		"The time between two checkpoints, by pool and model.", []string{"pool", "model"}, nil)
	overheadDesc = prometheus.NewDesc("reelay_checkpoint_overhead_ratio",
		"The share of the work that is expected to be wasted on checkpoints and losses, by pool and model.", []string{"pool", "model"}, nil)
)

// newPlans tells how often workers save checkpoints.
func newPlans(plans func() []checkpoints.PoolPlan) prometheus.Collector {
	s := &gauges[[]checkpoints.PoolPlan]{
		what: "the checkpoint plans", descs: []*prometheus.Desc{intervalDesc, overheadDesc},
		emit: func(plans []checkpoints.PoolPlan, into chan<- prometheus.Metric) {
			for _, p := range plans[:min(len(plans), maxPools*maxModels)] {
				into <- gauge(intervalDesc, p.IntervalSeconds, p.Pool, p.Model)
				into <- gauge(overheadDesc, p.Overhead, p.Pool, p.Model)
			}
		},
	}
	if plans != nil { // they are in memory
		s.read = func(context.Context) ([]checkpoints.PoolPlan, error) { return plans(), nil }
	}
	return s
}
