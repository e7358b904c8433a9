package history

// Name is the name of a metric in the API.
type Name string

// Unit is the unit of a metric.
type Unit string

// The units of metrics.
const (
	PerMinute Unit = "/min"
	PerHour   Unit = "/h"
	Seconds   Unit = "s"
	Count     Unit = ""
	Share     Unit = "%" // from 0 to 1
	GPUHours  Unit = "GPU h"
	Dollars   Unit = "$/h"
)

// Metric is a figure with a history.
type Metric struct {
	Name  Name
	Title string
	Unit  Unit
	// Of returns the metric's value, or nil if it is unknown.
	Of func(*Figures) *float64
}

// Metrics are all metrics.
var Metrics = []Metric{
	{"SUBMITTED", "Submitted", PerMinute, (*Figures).SubmittedPerMinute},
	{"STARTED", "Started", PerMinute, (*Figures).StartedPerMinute},
	{"COMPLETED", "Completed", PerMinute, (*Figures).CompletedPerMinute},
	{"FAILED", "Failed", PerMinute, (*Figures).FailedPerMinute},
	{"FAILURE_RATE", "Failure rate", Share, (*Figures).FailureRate},
	{"WAIT_P50", "Wait, median", Seconds, quantile((*Figures).Wait, 0.5)},
	{"WAIT_P95", "Wait, p95", Seconds, quantile((*Figures).Wait, 0.95)},
	{"WAIT_P99", "Wait, p99", Seconds, quantile((*Figures).Wait, 0.99)},
	{"PICKUP_P99", "Pickup, p99", Seconds, quantile((*Figures).Pickup, 0.99)},
	{"RENDER_P50", "Render, median", Seconds, quantile((*Figures).Render, 0.5)},
	{"RENDER_P95", "Render, p95", Seconds, quantile((*Figures).Render, 0.95)},
	{"RENDER_P99", "Render, p99", Seconds, quantile((*Figures).Render, 0.99)},
	{"QUEUED", "Queued", Count, (*Figures).Queued},
	{"RUNNING", "Running", Count, (*Figures).Running},
	{"OLDEST_WAIT", "Oldest wait", Seconds, (*Figures).OldestWait},
	{"DRAIN", "Time to empty the queues", Seconds, (*Figures).Drain},
	{"DEAD_LETTERS", "Dead letters", Count, (*Figures).DeadLetters},
	{"WORKERS_BUSY", "Busy", Count, (*Figures).Busy},
	{"WORKERS_IDLE", "Idle", Count, (*Figures).Idle},
	{"WORKERS_BOOTING", "Booting", Count, (*Figures).Booting},
	{"WORKERS_DRAINING", "Draining", Count, (*Figures).Draining},
	{"WORKER_UTILIZATION", "Worker utilization", Share, (*Figures).WorkerUtilization},
	{"GPU_UTILIZATION", "GPU utilization", Share, (*Figures).GPUUtilization},
	{"GPU_HOURS", "GPU hours", GPUHours, (*Figures).GPUHours},
	{"WASTED_GPU_HOURS", "Wasted", GPUHours, (*Figures).WastedGPUHours},
	{"GOODPUT", "GPU goodput", Share, (*Figures).Goodput},
	{"PREEMPTIONS", "Preemptions", PerHour, (*Figures).PreemptionsPerHour},
	{"OPERATOR_PREEMPTIONS", "Preemptions by operators", PerHour, (*Figures).OperatorPreemptionsPerHour},
	{"LEASE_EXPIRATIONS", "Lease expirations", PerMinute, (*Figures).LeaseExpirationsPerMinute},
	{"CHECKPOINT_P95", "Checkpoint, p95", Seconds, quantile((*Figures).Checkpoint, 0.95)},
	{"RECOVERY_P95", "Recovery, p95", Seconds, quantile((*Figures).Recovery, 0.95)},
	{"COST", "Cost", Dollars, (*Figures).CostPerHour},
	{"WASTED_COST", "Wasted cost", Dollars, (*Figures).WastedUSDPerHour},
}

func quantile(of func(*Figures, float64) *float64, q float64) func(*Figures) *float64 {
	return func(f *Figures) *float64 { return of(f, q) }
}

// MetricOf returns a metric by its name.
func MetricOf(name Name) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}
