package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/jobs/checkpoints"
)

// checkpointPlans tells how often workers save checkpoints.
type checkpointPlans struct{ plans func() []checkpoints.PoolPlan }

var (
	intervalDesc = prometheus.NewDesc("reelay_checkpoint_interval_seconds",
		"The time between two checkpoints, by pool and model.", []string{"pool", "model"}, nil)
	overheadDesc = prometheus.NewDesc("reelay_checkpoint_overhead_ratio",
		"The share of the work that is expected to be wasted on checkpoints and losses, by pool and model.", []string{"pool", "model"}, nil)
)

// Describe implements prometheus.Collector.
func (c checkpointPlans) Describe(into chan<- *prometheus.Desc) {
	into <- intervalDesc
	into <- overheadDesc
}

// Collect implements prometheus.Collector.
func (c checkpointPlans) Collect(into chan<- prometheus.Metric) {
	if c.plans == nil {
		return
	}
	for _, p := range c.plans() {
		into <- prometheus.MustNewConstMetric(intervalDesc, prometheus.GaugeValue, p.IntervalSeconds, p.Pool, p.Model)
		into <- prometheus.MustNewConstMetric(overheadDesc, prometheus.GaugeValue, p.Overhead, p.Pool, p.Model)
	}
}
