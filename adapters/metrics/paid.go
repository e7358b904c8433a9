package metrics

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/models"
)

// readPaidEvery is how often the totals are read. They grow once a minute.
const readPaidEvery = 15 * time.Second

var (
	// Useful time is the difference of two counters, because a render that is lost takes it back.
	paidDesc = desc("reelay_paid_seconds_total",
		"Paid time of workers, by pool and class: boot, load, render (also what was lost later), idle and ending.", "pool", "class")
	costDesc      = poolDesc("reelay_cost_usd_total", "What the pool's machines cost. Workers without a price cost nothing.")
	renderingDesc = poolDesc("reelay_gpu_seconds_total", "Paid time for which workers held jobs: the classes load, useful and wasted.")
	wastedDesc    = poolDesc("reelay_wasted_gpu_seconds_total", "Paid render time that no checkpoint or result kept: the class wasted.")
)

// newPaid says what the machines were paid for since the installation. All processes say the same: it is
// in the database, up to the newest minute of the history.
func newPaid(read func(context.Context) ([]*models.PaidTotal, error)) prometheus.Collector {
	return &gauges[[]*models.PaidTotal]{
		what: "what was paid for", every: readPaidEvery, read: read,
		descs: []*prometheus.Desc{paidDesc, costDesc, renderingDesc, wastedDesc},
		emit: func(totals []*models.PaidTotal, into chan<- prometheus.Metric) {
			for _, t := range totals[:min(len(totals), maxPools)] {
				pool := cmp.Or(t.Pool, "none")
				for class, seconds := range map[string]float64{"boot": t.Paid.Boot.Seconds, "load": t.Paid.Load.Seconds, "idle": t.Paid.Idle.Seconds,
					"render": t.Paid.Useful.Seconds + t.Paid.Wasted.Seconds, "ending": t.Paid.Ending.Seconds} {
					into <- total(paidDesc, seconds, pool, class)
				}
				into <- total(costDesc, t.Paid.Total().USD, pool)
				into <- total(renderingDesc, t.Paid.Rendering().Seconds, pool)
				into <- total(wastedDesc, t.Paid.Wasted.Seconds, pool)
			}
		},
	}
}

// total is a counter.
func total(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
}
