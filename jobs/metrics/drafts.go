package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/models"
)

// sumDraftsEvery is how long a sum over all drafts of a month is good enough.
const sumDraftsEvery = time.Minute

// draftUsage says what became of the drafts of the last 30 days.
type draftUsage struct {
	sum func(context.Context) (models.DraftUsage, error)

	mu    sync.Mutex
	at    time.Time
	known *models.DraftUsage
}

var (
	draftsDesc       = prometheus.NewDesc("reelay_drafts", "Drafts of the last 30 days, by outcome.", []string{"outcome"}, nil)
	draftSecondsDesc = prometheus.NewDesc("reelay_draft_gpu_seconds", "GPU seconds of the drafts of the last 30 days, by outcome.", []string{"outcome"}, nil)
)

// Describe implements prometheus.Collector.
func (d *draftUsage) Describe(into chan<- *prometheus.Desc) {
	into <- draftsDesc
	into <- draftSecondsDesc
}

// Collect implements prometheus.Collector. While the database cannot be asked there are none.
func (d *draftUsage) Collect(into chan<- prometheus.Metric) {
	if d.sum == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) >= sumDraftsEvery {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		usage, err := d.sum(ctx)
		d.known, d.at = &usage, time.Now()
		if err != nil {
			slog.WarnContext(ctx, "the drafts cannot be summed up for a scrape", "error", err)
			d.known = nil
		}
	}
	if d.known == nil {
		return
	}
	for outcome, sum := range map[string]models.DraftSum{"undecided": d.known.Undecided, "continued": d.known.Continued, "discarded": d.known.Discarded} {
		into <- prometheus.MustNewConstMetric(draftsDesc, prometheus.GaugeValue, float64(sum.Drafts), outcome)
		into <- prometheus.MustNewConstMetric(draftSecondsDesc, prometheus.GaugeValue, sum.GPUSeconds, outcome)
	}
}
