package metrics

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/models/costs"
)

// readSpentEvery is how often the ledger of today is summed up.
const readSpentEvery = time.Minute

var (
	spentDesc = desc("reelay_spent_today_usd",
		"What the attempts cost that ended today (UTC), by provider and part: useful or wasted. Entries without a price are left out.", "provider", "part")
	chargedDesc = desc("reelay_charged_today_usd", "What accounts pay for jobs that completed today (UTC), by provider.", "provider")
)

// newSpent says what today's attempts cost. All processes say the same: it is in the ledger.
func newSpent(read func(context.Context) ([]*costs.Row, error)) prometheus.Collector {
	return &gauges[[]*costs.Row]{
		what: "what was spent today", every: readSpentEvery, read: read, descs: []*prometheus.Desc{spentDesc, chargedDesc},
		emit: func(rows []*costs.Row, into chan<- prometheus.Metric) {
			for _, row := range rows[:min(len(rows), maxPools)] {
				provider := cmp.Or(row.Key, "none")
				into <- gauge(spentDesc, row.UsefulUSD.InexactFloat64(), provider, "useful")
				into <- gauge(spentDesc, row.WastedUSD.InexactFloat64(), provider, "wasted")
				into <- gauge(chargedDesc, row.ChargedUSD.InexactFloat64(), provider)
			}
		},
	}
}
