// Package metrics is what operators scrape: Prometheus metrics under reelay_.
//
// Counters and histograms are of one process, as Prometheus wants it: each api and
// each control process is scraped by itself, and sums are the scraper's. Gauges are read when
// they are asked for, and every process tells the same.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/version"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/checkpoints"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/costs"
)

// Metrics counts what happens in this process, and serves it.
type Metrics struct {
	registry *prometheus.Registry
	// own are the collectors under reelay_.
	own      []prometheus.Collector
	submits  submits
	outcomes outcomes
	attempts attempts
	waits    waits
	requests *prometheus.HistogramVec
	webhooks *prometheus.CounterVec
	hints    *prometheus.CounterVec
	slots    slots
	stores   stores
	moderate moderate
	pools    *gauges[[]*query.PoolStatus]
	names    *poolNames
}

var _ jobs.Observer = (*Metrics)(nil)

// Sources are what gauges are read from. Those that are nil have none.
type Sources struct {
	// Queues lists what waits and runs.
	Queues func(context.Context) ([]backlog.QueueCount, error)
	// Drains says how long the queues take to empty.
	Drains func(context.Context) (*estimate.Drains, error)
	// Plans says how often workers save checkpoints.
	Plans func() []checkpoints.PoolPlan
	// GPUs sums up the GPUs of each pool.
	GPUs func(context.Context) ([]models.PoolGPUs, error)
	// Pools lists the pools with the numbers of their workers.
	Pools func(context.Context) ([]*query.PoolStatus, error)
	// Workers counts the workers by state.
	Workers func(context.Context) ([]alerts.WorkerCount, error)
	// Health says whether work gets stuck.
	Health func(context.Context) (*alerts.Health, error)
	// Drafts says what became of the drafts of the last 30 days.
	Drafts func(context.Context) (models.DraftUsage, error)
	// Paid says what the machines of each pool were paid for since the installation.
	Paid func(context.Context) ([]*models.PaidTotal, error)
	// Region says how the regions stand; nil if there is only one.
	Region func(context.Context) (*region.Report, error)
	// Spent sums up the ledger of today by provider, the dearest first.
	Spent func(context.Context) ([]*costs.Row, error)
}

// New returns the metrics of a process.
func New(from Sources) *Metrics {
	names, byModel := &poolNames{bound: newBound(maxPools)}, newBound(maxModels)
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		submits:  newSubmits(), outcomes: newOutcomes(byModel), attempts: newAttempts(names, byModel), waits: newWaits(byModel),
		requests: newRequests(), webhooks: newWebhooks(), hints: newHints(), slots: newSlots(), stores: newStores(), moderate: newModerate(),
		pools: newPools(from.Pools, names), names: names,
	}
	for _, some := range [][]prometheus.Collector{m.submits.all(), m.outcomes.all(), m.attempts.all(), m.waits.all(), m.stores.all(), m.moderate.all()} {
		m.own = append(m.own, some...)
	}
	m.own = append(m.own, m.requests, m.webhooks, m.hints, m.slots.ended, m.slots.left, m.slots.lag, newBuild(version.Current()), newQueues(from),
		newPlans(from.Plans), newGPUs(from.GPUs),
		m.pools, newWorkers(from.Workers), newHealth(from.Health), newDrafts(from.Drafts), newPaid(from.Paid), newSpent(from.Spent), newRegions(from.Region))
	m.registry.MustRegister(m.own...)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// newBuild identifies the running program.
func newBuild(is version.Build) prometheus.Collector {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "reelay_build_info", Help: "1, with the version, commit and Go version of this process.",
	}, []string{"version", "commit", "go"})
	build.WithLabelValues(is.Version, is.Commit, is.Go).Set(1)
	return build
}

// RefreshEvery is how often Refresh should run.
const RefreshEvery = 5 * time.Second

// Refresh reads the names of the pools, which counters by pool need before the first scrape, unless
// all that were asked for are known. It never fails: until they are known, such a pool is "unknown".
func (m *Metrics) Refresh(context.Context) error {
	if m.names.known.Load() == nil || m.names.missed.Load() {
		m.pools.current()
	}
	return nil
}

// Handler serves the metrics as Prometheus reads them, in the OpenMetrics format with exemplars if
// it asks for that.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 2 * readTimeout, EnableOpenMetrics: true,
	})
}
