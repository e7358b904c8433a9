// Package metrics is what operators scrape: Prometheus metrics under reelay_.
//
// Counters and histograms are of one process, as Prometheus wants it: each api
// process is scraped by itself, and sums are the scraper's. Gauges are read when
// they are asked for, and every process tells the same.
package metrics

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
)

const (
	// readTimeout bounds what is read for a scrape, and readEvery how often.
	readTimeout = 5 * time.Second
	readEvery   = 5 * time.Second
)

// Metrics counts what happens in this process, and serves it.
type Metrics struct {
	registry        *prometheus.Registry
	refused         *prometheus.CounterVec
	etaError        *prometheus.HistogramVec
	completionError *prometheus.HistogramVec
	outcomes        outcomes
}

var _ jobs.Observer = (*Metrics)(nil)

// Sources are what gauges are read from. Those that are nil have none.
type Sources struct {
	// Queues lists what waits and runs.
	Queues func(context.Context) ([]models.QueueCount, error)
	// Plans says how often workers save checkpoints.
	Plans func() []checkpoints.PoolPlan
	// GPUs sums up the GPUs of each pool.
	GPUs func(context.Context) ([]models.PoolGPUs, error)
	// Pools lists the pools with the numbers of their workers.
	Pools func(context.Context) ([]*query.PoolStatus, error)
	// Drafts says what became of the drafts of the last 30 days.
	Drafts func(context.Context) (models.DraftUsage, error)
}

// New returns the metrics of a process.
func New(from Sources) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reelay_submits_refused_total", Help: "Submits that were refused by a limit, by code and tier.",
		}, []string{"code", "tier"}),
		etaError:        errorsOf("reelay_eta_error_seconds", "By how much a job's wait was predicted wrong when it was submitted, in seconds."),
		completionError: errorsOf("reelay_completion_error_seconds", "By how much a job's completion was predicted wrong when it was submitted, in seconds."),
		outcomes:        newOutcomes(),
	}
	m.registry.MustRegister(m.outcomes.all()...)
	m.registry.MustRegister(m.refused, m.etaError, m.completionError,
		&queueDepth{queues: from.Queues}, checkpointPlans{from.Plans}, &poolGPUs{sums: from.GPUs}, &pools{list: from.Pools}, &draftUsage{sum: from.Drafts}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// errorsOf is by how much predictions were wrong, by tier.
func errorsOf(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
	}, []string{"tier"})
}

// Refused implements [jobs.Observer].
func (m *Metrics) Refused(code apierror.Code, tier models.Tier) {
	m.refused.WithLabelValues(string(code), string(tier)).Inc()
}

// Yielded implements [jobs.Observer].
func (m *Metrics) Yielded(to models.Tier, job *models.Job, wasted float64) {
	m.outcomes.yields.WithLabelValues(string(job.Lane), string(to)).Inc()
	m.outcomes.yieldCost.WithLabelValues(string(job.Lane)).Add(wasted)
}

// Changed implements [jobs.Observer]. It compares a first lease, and a completion, with
// what was predicted at the submit, and counts outcomes. Failures cannot be predicted, so a run with a failed
// attempt is left out.
func (m *Metrics) Changed(before, after *models.Job) {
	m.outcomes.changed(before, after)
	tier := string(after.Tier)
	if before.Status == models.JobQueued && after.Status == models.JobAssigned && after.AttemptNo == 1 &&
		after.PredictedWaitSeconds != nil && after.WaitedSeconds != nil {
		m.etaError.WithLabelValues(tier).Observe(math.Abs(*after.PredictedWaitSeconds - *after.WaitedSeconds))
	}
	if before.Status != models.JobCompleted && after.Status == models.JobCompleted && after.Run == 1 && after.Failures == 0 &&
		after.PredictedSeconds != nil {
		took := after.CompletedAt.Sub(after.CreatedAt).Seconds()
		m.completionError.WithLabelValues(tier).Observe(math.Abs(*after.PredictedSeconds - took))
	}
}

// Handler serves the metrics as Prometheus reads them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 2 * readTimeout,
	})
}

// queueDepth is how many jobs wait, read at most once in readEvery, however often
// it is scraped.
type queueDepth struct {
	queues func(context.Context) ([]models.QueueCount, error)

	mu    sync.Mutex
	at    time.Time
	known []models.QueueCount
}

var depthDesc = prometheus.NewDesc("reelay_queue_depth", "Jobs that wait for a worker, by tier and model.", []string{"tier", "model"}, nil)

// Describe implements prometheus.Collector.
func (d *queueDepth) Describe(into chan<- *prometheus.Desc) { into <- depthDesc }

// Collect implements prometheus.Collector. While the database cannot be asked
// there is no depth: unknown is not 0.
func (d *queueDepth) Collect(into chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) >= readEvery {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		known, err := d.queues(ctx)
		if err != nil {
			slog.WarnContext(ctx, "the queues cannot be counted for a scrape", "error", err)
		}
		d.known, d.at = known, time.Now()
	}
	for _, q := range d.known {
		if q.Model != "" {
			into <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(q.Depth), string(q.Lane), q.Model)
		}
	}
}
