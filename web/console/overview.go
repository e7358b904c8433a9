package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/attention"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// overview is the view of the first page.
type overview struct {
	*query.Overview
	Lanes []laneNow
	Pools []*query.PoolStatus
	// Changes are the newest ones of the last day.
	Changes []*query.Change
	// Causes are what needs attention, the most urgent first.
	Causes []attention.Cause
	// Welcome is the address of this Reelay, for its first steps, or "" if it has had a job.
	Welcome string
	Range   chartRange
	Now     time.Time
}

// laneNow is one lane: its queue now, and the waits of the last hour.
type laneNow struct {
	laneView
	P50, P95 *float64
	// Trend is how many of its jobs were queued in the last hour.
	Trend []*float64
}

func (c *overviewController) overview(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readOverview(r.Context(), p)
	if err != nil {
		return err
	}
	v.Now, v.Range = time.Now(), chartRangeOf(r)
	if v.Welcome, err = c.welcomes(r, p); err != nil {
		return err
	}
	charts, err := c.readCharts(r.Context(), v.Range)
	if err != nil {
		return err
	}
	return render(w, r, http.StatusOK, overviewPage(v, charts))
}

// welcomes returns the address of this Reelay, for its first steps, or "" if it has had a job.
func (c *overviewController) welcomes(r *http.Request, p jobs.Principal) (string, error) {
	newest, err := c.Reader.Jobs(r.Context(), p, models.JobFilter{}, paging.Request{First: 1})
	if err != nil || len(newest.Items) > 0 {
		return "", err
	}
	return c.origin(r), nil
}

func (c *overviewController) overviewLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.refresh(w, r, p, "/overview/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		v, err := c.readOverview(ctx, p)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return overviewNow(v)
		}, nil
	})
}

// overviewCharts serves the charts alone, for chart.js.
func (c *overviewController) overviewCharts(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	charts, err := c.readCharts(r.Context(), chartRangeOf(r))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return render(w, r, http.StatusOK, overviewChartGrid(charts))
}

func (c *overviewController) readOverview(ctx context.Context, p jobs.Principal) (*overview, error) {
	ctx, read, err := c.Reader.Shares.Admit(ctx, p, query.OverviewPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := new(overview)
	if v.Overview, err = c.Reader.Overview(ctx, p); err != nil {
		return nil, err
	}
	facts, err := (&attention.Reader{Reader: c.Reader, Alerts: c.Alerts}).Facts(ctx, p, v.Overview)
	if err != nil {
		return nil, err
	}
	if v.Changes, err = c.newestChanges(ctx, p); err != nil {
		return nil, err
	}
	v.Pools, v.Causes = facts.Pools, attention.Rank(facts)
	for _, lane := range lanesOf(v.Queues, v.Pauses, v.Halts) {
		of := v.Hour.Of(history.Selection{Lane: lane.Lane})
		v.Lanes = append(v.Lanes, laneNow{laneView: lane, P50: of.Wait(0.5), P95: of.Wait(0.95)})
	}
	return v, nil
}

// poolsShown is how many pools the overview shows.
const poolsShown = 6

// largestPools are those with the most workers, or the highest limits.
func (v *overview) largestPools() []*query.PoolStatus {
	workers := func(p *query.PoolStatus) int { return p.Busy + p.Idle + p.Booting }
	found := slices.SortedStableFunc(slices.Values(v.Pools), func(a, b *query.PoolStatus) int {
		return cmp.Or(cmp.Compare(workers(b), workers(a)), cmp.Compare(b.MaxWorkers, a.MaxWorkers))
	})
	return found[:min(len(found), poolsShown)]
}

// readCharts returns the charts of a time. All viewers of this process share what was read in the
// last ten seconds.
func (c *overviewController) readCharts(ctx context.Context, span chartRange) (overviewCharts, error) {
	past, err := c.charts.past(ctx, span)
	if err != nil {
		return overviewCharts{}, err
	}
	charts := chartsOf(past)
	return overviewCharts{span, charts}, c.charts.mark(ctx, span, charts)
}

// chartsOf draws the figures of a time.
func chartsOf(past []*history.Figures) []ui.ChartData {
	var waits, depths []line
	for i, lane := range models.Tiers {
		of := history.Selection{Lane: lane}
		waits = append(waits, line{label: ui.Words(string(lane)), tone: laneTone(i), of: metric("WAIT_P95"), selection: of})
		depths = append(depths, line{label: ui.Words(string(lane)), tone: laneTone(i), of: metric("QUEUED"), selection: of})
	}
	used := func(all []line) []line { return usedLines(past, all) }
	plain := func(label, tone string, name history.Name) line {
		return line{label: label, tone: tone, of: metric(name)}
	}
	return []ui.ChartData{
		pastChart("throughput", "Throughput", "/min", "/jobs", past, plain("submitted", "quiet", "SUBMITTED"), plain("completed", "good", "COMPLETED"), plain("failed", "bad", "FAILED")),
		pastChart("waits", "Wait by lane, p95", "s", "/queues", past, used(waits)...),
		pastChart("depth", "Queued by lane", "", "/queues", past, used(depths)...),
		pastChart("render", "Render time", "s", "/models", past, plain("p50", "accent", "RENDER_P50"), plain("p95", "busy", "RENDER_P95"), plain("p99", "warn", "RENDER_P99")),
		pastChart("busy", "Busy workers by pool", "", "/pools", past, poolLines(past, "WORKERS_BUSY")...),
		pastChart("idle", "Idle workers by pool", "", "/pools", past, poolLines(past, "WORKERS_IDLE")...),
		pastChart("booting", "Booting workers by pool", "", "/pools", past, poolLines(past, "WORKERS_BOOTING")...),
		pastChart("utilization", "Utilization", "%", "/heatmap", past, plain("workers", "busy", "WORKER_UTILIZATION"), plain("GPUs", "accent", "GPU_UTILIZATION"), plain("goodput", "good", "GOODPUT")),
		pastChart("failures", "Failure rate", "%", "/dead-letters", past, plain("failed", "bad", "FAILURE_RATE")),
		pastChart("preemptions", "Preemptions", "/h", "/pools", past, plain("preempted", "warn", "PREEMPTIONS")),
		pastChart("waste", "GPU hours", "GPU h", "/heatmap", past, plain("all", "good", "GPU_HOURS"), plain("wasted", "bad", "WASTED_GPU_HOURS")),
		pastChart("drain", "Time to empty the queues", "s", "/queues", past, plain("drain", "accent", "DRAIN")),
	}
}

// overviewChanges is how many changes the overview shows.
const overviewChanges = 5

// newestChanges returns the newest changes of the last day.
func (c *overviewController) newestChanges(ctx context.Context, p jobs.Principal) ([]*query.Change, error) {
	found, err := c.Reader.Changes(ctx, p, query.ChangeFilter{Since: time.Now().Add(-24 * time.Hour)}, paging.Request{First: overviewChanges})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}
