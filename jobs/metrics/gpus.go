package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/models"
)

// poolGPUs sums up the GPUs of each pool, at most once in readEvery. There are no metrics per GPU:
// a fleet that is preempted all the time would leave a new time series for each machine.
type poolGPUs struct {
	sums func(context.Context) ([]models.PoolGPUs, error)

	mu    sync.Mutex
	at    time.Time
	known []models.PoolGPUs
}

var (
	gpusDesc        = gpuDesc("reelay_gpus", "GPUs that workers reported within the last minute, by pool.")
	faultyDesc      = gpuDesc("reelay_gpus_faulty", "Those of them that had uncorrected memory errors or an XID, by pool.")
	utilizationDesc = gpuDesc("reelay_gpu_utilization_ratio", "The mean utilization of a pool's GPUs, 0 to 1.")
	memoryDesc      = gpuDesc("reelay_gpu_memory_used_ratio", "The share of the memory of a pool's GPUs that is used, 0 to 1.")
	temperatureDesc = gpuDesc("reelay_gpu_temperature_max_celsius", "The temperature of a pool's hottest GPU.")
	powerDesc       = gpuDesc("reelay_gpu_power_watts", "The power that a pool's GPUs draw together.")
)

func gpuDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"pool"}, nil)
}

// Describe implements prometheus.Collector.
func (g *poolGPUs) Describe(into chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{gpusDesc, faultyDesc, utilizationDesc, memoryDesc, temperatureDesc, powerDesc} {
		into <- desc
	}
}

// Collect implements prometheus.Collector.
func (g *poolGPUs) Collect(into chan<- prometheus.Metric) {
	if g.sums == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.at) >= readEvery {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		known, err := g.sums(ctx)
		if err != nil {
			slog.WarnContext(ctx, "the GPUs cannot be summed up for a scrape", "error", err)
		}
		g.known, g.at = known, time.Now()
	}
	for _, pool := range g.known {
		for _, gauge := range []struct {
			desc  *prometheus.Desc
			value *float64
		}{
			{gpusDesc, new(float64(pool.Count))}, {faultyDesc, new(float64(pool.Faulty))}, {utilizationDesc, pool.Utilization},
			{memoryDesc, pool.MemoryUsed}, {temperatureDesc, pool.TemperatureC}, {powerDesc, pool.PowerW},
		} {
			if gauge.value != nil {
				into <- prometheus.MustNewConstMetric(gauge.desc, prometheus.GaugeValue, *gauge.value, pool.Pool)
			}
		}
	}
}
