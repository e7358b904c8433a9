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

// overviewCharts is the view of the charts.
type overviewCharts struct {
	Range  chartRange
	Charts []ui.ChartData
}

func (c *console) overview(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
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
func (c *console) welcomes(r *http.Request, p jobs.Principal) (string, error) {
	newest, err := c.Reader.Jobs(r.Context(), p, models.JobFilter{}, paging.Request{First: 1})
	if err != nil || len(newest.Items) > 0 {
		return "", err
	}
	return c.origin(r), nil
}

func (c *console) overviewLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
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
func (c *console) overviewCharts(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	charts, err := c.readCharts(r.Context(), chartRangeOf(r))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return render(w, r, http.StatusOK, overviewChartGrid(charts))
}

func (c *console) readOverview(ctx context.Context, p jobs.Principal) (*overview, error) {
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

// chartsFor is how long charts are used for all viewers of this process.
const chartsFor = 10 * time.Second

// readCharts returns the charts of a time. All viewers of this process share what was read in the
// last ten seconds.
func (c *console) readCharts(ctx context.Context, span chartRange) (overviewCharts, error) {
	past, err := c.readPast(ctx, span)
	if err != nil {
		return overviewCharts{}, err
	}
	charts := chartsOf(past)
	return overviewCharts{span, charts}, c.mark(ctx, span, charts)
}

// readPast returns the history of a time, as all viewers of this process share it.
func (c *console) readPast(ctx context.Context, span chartRange) ([]*history.Figures, error) {
	return c.pasts.of(ctx, span, func(ctx context.Context) ([]*history.Figures, error) {
		now := time.Now()
		found, err := c.Reader.History.Series(ctx, now.Add(-span.Length), now, span.Step)
		if n := len(found); n > 1 && found[n-1].Covered < span.Step/2 {
			found = found[:n-1] // it has hardly begun, and would look like a fall
		}
		return found, err
	})
}

// chartsOf draws the figures of a time.
func chartsOf(past []*history.Figures) []ui.ChartData {
	var waits, depths []line
	for i, lane := range models.Tiers {
		of := history.Selection{Lane: lane}
		waits = append(waits, line{ui.Words(string(lane)), laneTone(i), metric("WAIT_P95"), of})
		depths = append(depths, line{ui.Words(string(lane)), laneTone(i), metric("QUEUED"), of})
	}
	used := func(all []line) []line { return usedLines(past, all) }
	plain := func(label, tone string, name history.Name) line {
		return line{label, tone, metric(name), history.Selection{}}
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
