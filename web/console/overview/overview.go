package overview

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
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/queues"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/trends"
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
	Range   trends.Range
	Now     time.Time
}

// laneNow is one lane: its queue now, and the waits of the last hour.
type laneNow struct {
	queues.LaneView
	P50, P95 *float64
	// Trend is how many of its jobs were queued in the last hour.
	Trend []*float64
}

func (c *controller) overview(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readOverview(r.Context(), p)
	if err != nil {
		return err
	}
	v.Now, v.Range = time.Now(), trends.RangeOf(r)
	if v.Welcome, err = c.welcomes(r, p); err != nil {
		return err
	}
	charts, err := c.readCharts(r.Context(), v.Range)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, overviewPage(v, charts))
}

// welcomes returns the address of this Reelay, for its first steps, or "" if it has had a job.
func (c *controller) welcomes(r *http.Request, p jobs.Principal) (string, error) {
	newest, err := c.Reads.Jobs.List(r.Context(), p, joblist.JobFilter{}, paging.Request{First: 1})
	if err != nil || len(newest.Items) > 0 {
		return "", err
	}
	return c.Origin(r), nil
}

func (c *controller) overviewLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.Refresh(w, r, p, "/overview/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
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
func (c *controller) overviewCharts(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	charts, err := c.readCharts(r.Context(), trends.RangeOf(r))
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return shell.Render(w, r, http.StatusOK, trends.Grid(charts))
}

func (c *controller) readOverview(ctx context.Context, p jobs.Principal) (*overview, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.OverviewPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := new(overview)
	if v.Overview, err = c.Reads.History.Overview(ctx, p); err != nil {
		return nil, err
	}
	facts, err := (&attention.Finder{Reads: c.Reads, Alerts: c.Alerts}).Facts(ctx, p, v.Overview)
	if err != nil {
		return nil, err
	}
	if v.Changes, err = c.newestChanges(ctx, p); err != nil {
		return nil, err
	}
	v.Pools, v.Causes = facts.Pools, attention.Rank(facts)
	for _, lane := range queues.Lanes(v.Queues, v.Pauses, v.Halts) {
		of := v.Hour.Of(history.Selection{Lane: lane.Lane})
		v.Lanes = append(v.Lanes, laneNow{LaneView: lane, P50: of.Wait(0.5), P95: of.Wait(0.95)})
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
func (c *controller) readCharts(ctx context.Context, span trends.Range) (trends.Charts, error) {
	past, err := c.charts.Past(ctx, span)
	if err != nil {
		return trends.Charts{}, err
	}
	charts := chartsOf(past)
	return trends.Charts{Range: span, Charts: charts}, c.charts.Mark(ctx, span, charts)
}

// chartsOf draws the figures of a time.
func chartsOf(past []*history.Figures) []ui.ChartData {
	var waits, depths []trends.Line
	for i, lane := range models.Tiers {
		of := history.Selection{Lane: lane}
		waits = append(waits, trends.Line{Label: ui.Words(string(lane)), Tone: trends.LaneTone(i), Of: trends.Metric("WAIT_P95"), Selection: of})
		depths = append(depths, trends.Line{Label: ui.Words(string(lane)), Tone: trends.LaneTone(i), Of: trends.Metric("QUEUED"), Selection: of})
	}
	used := func(all []trends.Line) []trends.Line { return trends.Used(past, all) }
	plain := func(label, tone string, name history.Name) trends.Line {
		return trends.Line{Label: label, Tone: tone, Of: trends.Metric(name)}
	}
	return []ui.ChartData{
		trends.New("throughput", "Throughput", "/min", "/jobs", past, plain("submitted", "quiet", "SUBMITTED"),
			plain("completed", "good", "COMPLETED"), plain("failed", "bad", "FAILED")),
		trends.New("waits", "Wait by lane, p95", "s", "/queues", past, used(waits)...),
		trends.New("depth", "Queued by lane", "", "/queues", past, used(depths)...),
		trends.New("render", "Render time", "s", "/models", past, plain("p50", "accent", "RENDER_P50"), plain("p95", "busy", "RENDER_P95"),
			plain("p99", "warn", "RENDER_P99")),
		trends.New("busy", "Busy workers by pool", "", "/pools", past, trends.PoolLines(past, "WORKERS_BUSY")...),
		trends.New("idle", "Idle workers by pool", "", "/pools", past, trends.PoolLines(past, "WORKERS_IDLE")...),
		trends.New("booting", "Booting workers by pool", "", "/pools", past, trends.PoolLines(past, "WORKERS_BOOTING")...),
		trends.New("utilization", "Utilization", "%", "/heatmap", past, plain("workers", "busy", "WORKER_UTILIZATION"),
			plain("GPUs", "accent", "GPU_UTILIZATION"), plain("goodput", "good", "GOODPUT")),
		trends.New("failures", "Failure rate", "%", "/dead-letters", past, plain("failed", "bad", "FAILURE_RATE")),
		trends.New("preemptions", "Preemptions", "/h", "/pools", past, plain("preempted", "warn", "PREEMPTIONS")),
		trends.New("waste", "GPU hours", "GPU h", "/heatmap", past, plain("paid", "quiet", "PAID_GPU_HOURS"),
			plain("useful", "good", "USEFUL_GPU_HOURS"), plain("wasted", "bad", "WASTED_GPU_HOURS")),
		trends.New("drain", "Time to empty the queues", "s", "/queues", past, plain("drain", "accent", "DRAIN")),
	}
}

// overviewChanges is how many changes the overview shows.
const overviewChanges = 5

// newestChanges returns the newest changes of the last day.
func (c *controller) newestChanges(ctx context.Context, p jobs.Principal) ([]*query.Change, error) {
	lately := query.ChangeFilter{Since: time.Now().Add(-24 * time.Hour)}
	found, err := c.Reads.History.Changes(ctx, p, lately, paging.Request{First: overviewChanges})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}
