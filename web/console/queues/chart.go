package queues

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/trends"
	"github.com/reelay/reelay/web/ui"
)

// modelTones are the colours of models. A chart has as many, those with the most jobs.
var modelTones = []string{"accent", "good", "busy", "warn", "quiet"}

// queueCharts serves the charts of a page with queues alone, for chart.js.
func (c *controller) queueCharts(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	var lane models.Tier
	if r.PathValue("lane") != "" {
		var err error
		if lane, _, err = c.queueOf(r); err != nil {
			return err
		}
	}
	charts, err := c.readQueueCharts(r.Context(), trends.RangeOf(r), lane)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return shell.Render(w, r, http.StatusOK, trends.Grid(charts))
}

// readQueueCharts returns the charts of all lanes, or of the models of one lane.
func (c *controller) readQueueCharts(ctx context.Context, span trends.Range, lane models.Tier) (trends.Charts, error) {
	past, err := c.charts.Past(ctx, span)
	if err != nil {
		return trends.Charts{}, err
	}
	charts := queueChartsOf(past, lane)
	return trends.Charts{Range: span, Charts: charts}, c.charts.Mark(ctx, span, charts)
}

func queueChartsOf(past []*history.Figures, lane models.Tier) []ui.ChartData {
	of := func(name history.Name) (all []trends.Line) {
		if lane == "" {
			for i, tier := range models.Tiers {
				all = append(all, trends.Line{Label: ui.Words(string(tier)), Tone: trends.LaneTone(i), Of: trends.Metric(name),
					Selection: history.Selection{Lane: tier}})
			}
			return trends.Used(past, all)
		}
		for i, model := range busiest(past, lane) {
			all = append(all, trends.Line{Label: model, Tone: modelTones[i], Of: trends.Metric(name),
				Selection: history.Selection{Lane: lane, Model: model}})
		}
		return all
	}
	by := " by lane"
	if lane != "" {
		by = " by model"
	}
	return []ui.ChartData{
		trends.New("depth", "Queued"+by, "", "", past, of("QUEUED")...),
		trends.New("waits", "Wait"+by+", p95", "s", "", past, of("WAIT_P95")...),
		trends.New("submitted", "Submitted"+by, "/min", "", past, of("SUBMITTED")...),
		trends.New("throughput", "Completed"+by, "/min", "", past, of("COMPLETED")...),
	}
}

// busiest returns the models of a lane that had the most jobs, by name.
func busiest(past []*history.Figures, lane models.Tier) []string {
	weight := map[string]float64{}
	var names []string
	for _, f := range past {
		for _, j := range f.Jobs {
			if j.Lane != lane {
				continue
			}
			if _, known := weight[j.Model]; !known {
				names = append(names, j.Model)
			}
			weight[j.Model] += float64(j.Submitted+j.Completed) + j.Queued
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(weight[b], weight[a]), cmp.Compare(a, b)) })
	names = names[:min(len(names), len(modelTones))]
	slices.Sort(names)
	return names
}
