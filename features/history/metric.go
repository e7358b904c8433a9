package history

import (
	"fmt"

	"github.com/reelay/reelay/models"
)

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
	Each      Unit = "$"
)

// Metric is a figure with a history.
type Metric struct {
	Name  Name
	Title string
	Unit  Unit
	// Subject is what the figure is about. It says by what it can be narrowed.
	Subject Subject
	// Of returns the metric's value, or nil if it is unknown.
	Of func(*Figures) *float64
}

// Subject is what a metric is about.
type Subject string

const (
	// OfJobs can be narrowed by a tier and a model.
	OfJobs Subject = "jobs"
	// OfWorkers can be narrowed by a pool, a region and a type of GPU.
	OfWorkers Subject = "workers"
	// OfAll cannot be narrowed.
	OfAll Subject = "all of Reelay"
)

// Metrics are all metrics.
var Metrics = []Metric{
	{"SUBMITTED", "Submitted", PerMinute, OfJobs, (*Figures).SubmittedPerMinute},
	{"STARTED", "Started", PerMinute, OfJobs, (*Figures).StartedPerMinute},
	{"COMPLETED", "Completed", PerMinute, OfJobs, (*Figures).CompletedPerMinute},
	{"FAILED", "Failed", PerMinute, OfJobs, (*Figures).FailedPerMinute},
	{"FAILURE_RATE", "Failure rate", Share, OfJobs, (*Figures).FailureRate},
	{"WAIT_P50", "Wait, median", Seconds, OfJobs, quantile((*Figures).Wait, 0.5)},
	{"WAIT_P95", "Wait, p95", Seconds, OfJobs, quantile((*Figures).Wait, 0.95)},
	{"WAIT_P99", "Wait, p99", Seconds, OfJobs, quantile((*Figures).Wait, 0.99)},
	{"PICKUP_P99", "Pickup, p99", Seconds, OfJobs, quantile((*Figures).Pickup, 0.99)},
	{"RENDER_P50", "Render, median", Seconds, OfJobs, quantile((*Figures).Render, 0.5)},
	{"RENDER_P95", "Render, p95", Seconds, OfJobs, quantile((*Figures).Render, 0.95)},
	{"RENDER_P99", "Render, p99", Seconds, OfJobs, quantile((*Figures).Render, 0.99)},
	{"QUEUED", "Queued", Count, OfJobs, (*Figures).Queued},
	{"RUNNING", "Running", Count, OfJobs, (*Figures).Running},
	{"OLDEST_WAIT", "Oldest wait", Seconds, OfJobs, (*Figures).OldestWait},
	{"DRAIN", "Time to empty the queues", Seconds, OfAll, (*Figures).Drain},
	{"DEAD_LETTERS", "Dead letters", Count, OfAll, (*Figures).DeadLetters},
	{"WORKERS_BUSY", "Busy", Count, OfWorkers, (*Figures).Busy},
	{"WORKERS_IDLE", "Idle", Count, OfWorkers, (*Figures).Idle},
	{"WORKERS_BOOTING", "Booting", Count, OfWorkers, (*Figures).Booting},
	{"WORKERS_DRAINING", "Draining", Count, OfWorkers, (*Figures).Draining},
	{"WORKER_UTILIZATION", "Worker utilization", Share, OfWorkers, (*Figures).WorkerUtilization},
	{"GPU_UTILIZATION", "GPU utilization", Share, OfWorkers, (*Figures).GPUUtilization},
	{"GPU_HOURS", "GPU hours with jobs", GPUHours, OfWorkers, (*Figures).GPUHours},
	{"PAID_GPU_HOURS", "Paid GPU hours", GPUHours, OfWorkers, (*Figures).PaidGPUHours},
	{"BOOT_GPU_HOURS", "Booting", GPUHours, OfWorkers, class(models.PaidBoot)},
	{"LOAD_GPU_HOURS", "Loading", GPUHours, OfWorkers, class(models.PaidLoad)},
	{"IDLE_GPU_HOURS", "Idle", GPUHours, OfWorkers, class(models.PaidIdle)},
	{"USEFUL_GPU_HOURS", "Useful", GPUHours, OfWorkers, class(models.PaidUseful)},
	{"WASTED_GPU_HOURS", "Wasted", GPUHours, OfWorkers, (*Figures).WastedGPUHours},
	{"ENDING_GPU_HOURS", "Ending", GPUHours, OfWorkers, class(models.PaidEnding)},
	{"GOODPUT", "GPU goodput", Share, OfWorkers, (*Figures).Goodput},
	{"PREEMPTIONS", "Preemptions", PerHour, OfWorkers, (*Figures).PreemptionsPerHour},
	{"OPERATOR_PREEMPTIONS", "Preemptions by operators", PerHour, OfWorkers, (*Figures).OperatorPreemptionsPerHour},
	{"LEASE_EXPIRATIONS", "Lease expirations", PerMinute, OfWorkers, (*Figures).LeaseExpirationsPerMinute},
	{"CHECKPOINT_P95", "Checkpoint, p95", Seconds, OfWorkers, quantile((*Figures).Checkpoint, 0.95)},
	{"RECOVERY_P95", "Recovery, p95", Seconds, OfWorkers, quantile((*Figures).Recovery, 0.95)},
	{"COST", "Cost", Dollars, OfWorkers, (*Figures).CostPerHour},
	{"WASTED_COST", "Wasted cost", Dollars, OfWorkers, (*Figures).WastedUSDPerHour},
	{"COST_PER_VIDEO", "Cost per completed job", Each, OfAll, (*Figures).CostPerVideo},
}

// Refuses returns why a metric cannot be narrowed by a selection, and the name of the argument that
// does, or "".
func (m Metric) Refuses(s Selection) (argument, why string) {
	of := map[Subject][]struct{ name, value string }{
		OfJobs:    {{"tier", string(s.Lane)}, {"model", s.Model}},
		OfWorkers: {{"pool", s.Pool}, {"region", s.Region}, {"gpuType", s.GPUType}},
	}
	for subject, arguments := range of {
		for _, a := range arguments {
			if subject != m.Subject && a.value != "" {
				return a.name, fmt.Sprintf("%s is about %s: it cannot be narrowed by a %s. Ask for it without.", m.Name, m.Subject, a.name)
			}
		}
	}
	return "", ""
}

func class(name models.PaidClass) func(*Figures) *float64 {
	return func(f *Figures) *float64 { return f.hours(name) }
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
