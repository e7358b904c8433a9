package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/models"
)

var (
	gpusDesc        = desc("reelay_gpus", "GPUs that workers reported within the last minute, by pool.", "pool")
	faultyDesc      = desc("reelay_gpus_faulty", "Those of them that had uncorrected memory errors or an XID, by pool.", "pool")
	utilizationDesc = desc("reelay_gpu_utilization", "The mean utilization of a pool's GPUs, 0 to 1.", "pool")
	memoryDesc      = desc("reelay_gpu_memory_used_ratio", "The share of the memory of a pool's GPUs that is used, 0 to 1.", "pool")
	temperatureDesc = desc("reelay_gpu_temperature_max_celsius", "The temperature of a pool's hottest GPU.", "pool")
	powerDesc       = desc("reelay_gpu_power_watts", "The power that a pool's GPUs draw together.", "pool")
)

// newGPUs sums up the GPUs of each pool. There are no metrics per GPU: a fleet that is preempted
// all the time would leave a new time series for each machine.
func newGPUs(sums func(context.Context) ([]models.PoolGPUs, error)) prometheus.Collector {
	return &gauges[[]models.PoolGPUs]{
		what: "the GPUs", every: readEvery, read: sums,
		descs: []*prometheus.Desc{gpusDesc, faultyDesc, utilizationDesc, memoryDesc, temperatureDesc, powerDesc},
		emit: func(known []models.PoolGPUs, into chan<- prometheus.Metric) {
			for _, pool := range known[:min(len(known), maxPools)] {
				emitGPUs(pool, into)
			}
		},
	}
}

func emitGPUs(pool models.PoolGPUs, into chan<- prometheus.Metric) {
	for _, of := range []struct {
		desc  *prometheus.Desc
		value *float64
	}{
		{gpusDesc, new(float64(pool.Count))}, {faultyDesc, new(float64(pool.Faulty))}, {utilizationDesc, pool.Utilization},
		{memoryDesc, pool.MemoryUsed}, {temperatureDesc, pool.TemperatureC}, {powerDesc, pool.PowerW},
	} {
		if of.value != nil {
			into <- gauge(of.desc, *of.value, pool.Pool)
		}
	}
}
