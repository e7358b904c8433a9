package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/models"
)

// sumDraftsEvery is how long a sum over all drafts of a month is good enough.
const sumDraftsEvery = time.Minute

var (
	draftsDesc       = desc("reelay_drafts", "Drafts of the last 30 days, by outcome.", "outcome")
	draftSecondsDesc = desc("reelay_draft_gpu_seconds", "GPU seconds of the drafts of the last 30 days, by outcome.", "outcome")
)

// newDrafts says what became of the drafts of the last 30 days.
func newDrafts(sum func(context.Context) (models.DraftUsage, error)) prometheus.Collector {
	return &gauges[models.DraftUsage]{
		what: "the drafts", every: sumDraftsEvery, read: sum, descs: []*prometheus.Desc{draftsDesc, draftSecondsDesc},
		emit: func(usage models.DraftUsage, into chan<- prometheus.Metric) {
			for outcome, sum := range map[string]models.DraftSum{"undecided": usage.Undecided, "continued": usage.Continued,
				"discarded": usage.Discarded} {
				into <- gauge(draftsDesc, float64(sum.Drafts), outcome)
				into <- gauge(draftSecondsDesc, sum.GPUSeconds, outcome)
			}
		},
	}
}
