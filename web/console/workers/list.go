package workers

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

const (
	// ListSize is the number of workers on a page, and workerGridSize that of tiles.
	ListSize       = 100
	workerGridSize = 200
)

// List is the view of the page with workers.
type List struct {
	Rows []workerRow
	// Hosts are those that lost or crashed the most attempts; only the newest page of all active
	// workers has them. Groups are the active workers counted by pool, GPU and zone.
	Hosts  []*capacity.EatingHost
	Groups []*models.WorkerGroup
	Filter workerFilter
	// Problem says what is wrong with the address, or is "".
	Problem string
	// Matching counts the workers that match the filter, up to query.CountLimit.
	Matching int
	After    string
	Older    string
	// Stale is true if the requested page of the list no longer exists.
	Stale bool
	Now   time.Time
}

type workerRow struct {
	*models.Worker
	Pool string
	Job  *models.Job
	GPUs []*models.GPUState
	// Past is how busy its GPUs were in the last two hours, or nil if they told nothing.
	Past *capacity.GPUHistory
	// Hosted is true if the provider can stop the machine, and Preemptable if it can also give notice before.
	Hosted, Preemptable bool
	// Silent is true if the worker's next heartbeat is overdue.
	Silent bool
	// Served are the models of which it gets jobs, and Refused the others that it offers.
	Served  []string
	Refused []catalogue.Refusal
}

// offers says in a line what the worker runs, and of how many models it gets no jobs.
func (r workerRow) offers() string {
	all := ui.Clip(strings.Join(r.Served, ", "), 60)
	switch {
	case len(r.Refused) == 0:
		return all
	case len(r.Served) == 0:
		return "gets jobs of none of its models"
	}
	return all + ", without " + ui.Clip(strings.Join(lo.Map(r.Refused, func(of catalogue.Refusal, _ int) string { return of.Model }), ", "),
		60)
}

// Present are the states of workers that are not terminated.
var Present = []models.WorkerStatus{models.WorkerBooting, models.WorkerIdle, models.WorkerBusy, models.WorkerDraining, models.WorkerLost}

func (c *controller) workerList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := workerListOf(r)
	v, err := c.readWorkers(r.Context(), p, asked)
	status := http.StatusOK
	if shell.IsStalePage(err) {
		v, status = &List{Filter: asked.Filter, Stale: true}, http.StatusUnprocessableEntity
	} else if err != nil {
		return err
	}
	if v.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	v.Now = time.Now()
	return shell.Render(w, r, status, workerListPage(v))
}

func (c *controller) workerListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := workerListOf(r)
	return c.Refresh(w, r, p, asked.path("/workers/live", asked.After),
		func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
			v, err := c.readWorkers(ctx, p, asked)
			if err != nil {
				return nil, err
			}
			return func(now time.Time) templ.Component {
				v.Now = now
				return workerTable(v)
			}, nil
		})
}

// workerListOf returns the page that an address asks for, without its rows.
func workerListOf(r *http.Request) List {
	filter, problem := workerFilterOf(r)
	return List{Filter: filter, Problem: problem, After: r.URL.Query().Get("after")}
}

func (c *controller) readWorkers(ctx context.Context, p jobs.Principal, v List) (*List, error) {
	size := ListSize
	if v.Filter.Grid {
		size = workerGridSize
	}
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.PagePrice(size))
	if err != nil {
		return nil, err
	}
	defer read.End()
	if v.Groups, err = c.Reads.Fleet.WorkerGroups(ctx); err != nil {
		return nil, err
	}
	pools, err := c.Reads.Fleet.Pools(ctx)
	if err != nil {
		return nil, err
	}
	filter, known := v.Filter.in(pools)
	if !known {
		return &v, nil
	}
	page, err := c.Reads.Fleet.Workers(ctx, filter, paging.Request{First: size, After: v.After})
	if err != nil {
		return nil, err
	}
	if page.More {
		v.Older = v.path("/workers", page.End)
	}
	if v.Matching, err = c.Reads.Fleet.CountWorkers(ctx, filter); err != nil {
		return nil, err
	}
	if v.Rows, err = ReadRows(ctx, c.Reads, p, c.Fleet, page.Items, pools); err != nil || v.After != "" || v.Filter.narrow() || v.Filter.Grid {
		return &v, err
	}
	v.Hosts, err = c.Reads.Fleet.EatingHosts(ctx)
	return &v, err
}

// workerRow reads what a page shows of one worker.
func (c *controller) workerRow(ctx context.Context, p jobs.Principal, id models.WorkerID) (workerRow, error) {
	worker, err := c.Reads.Fleet.Worker(ctx, id)
	if err != nil {
		return workerRow{}, err
	}
	pools, err := c.Reads.Fleet.Pools(ctx)
	if err != nil {
		return workerRow{}, err
	}
	rows, err := ReadRows(ctx, c.Reads, p, c.Fleet, []*models.Worker{worker}, pools)
	if err != nil {
		return workerRow{}, err
	}
	return rows[0], nil
}

// ReadRows returns the rows of workers. The pools are those that their names are taken from.
func ReadRows(ctx context.Context, reads *query.Reads, p jobs.Principal, operator *fleet.WorkerOperator, workers []*models.Worker,
	pools []*query.PoolStatus) ([]workerRow, error) {
	if len(workers) == 0 {
		return nil, nil
	}
	var ids []models.WorkerID
	for _, w := range workers {
		ids = append(ids, w.ID)
	}
	held, err := reads.Fleet.CurrentJobs(ctx, p, ids)
	if err != nil {
		return nil, err
	}
	silent, err := reads.Fleet.SilentWorkers(ctx, ids)
	if err != nil {
		return nil, err
	}
	states, err := reads.Fleet.GPUs(ctx, ids)
	if err != nil {
		return nil, err
	}
	past, err := reads.Fleet.GPUHistory(ctx, ids)
	if err != nil {
		return nil, err
	}
	pasts := lo.KeyBy(past, func(h *capacity.GPUHistory) models.WorkerID { return h.WorkerID })
	gpus := lo.GroupBy(states, func(g *models.GPUState) models.WorkerID { return g.WorkerID })
	names := map[models.PoolID]string{}
	for _, pool := range pools {
		names[pool.ID] = pool.Name
	}
	var rows []workerRow
	for _, w := range workers {
		served, refused := reads.Models.Catalogue.Current().Split(w.Offer)
		rows = append(rows, workerRow{w, names[w.PoolID], held[w.ID], gpus[w.ID], pasts[w.ID], operator.Hosts(w), operator.Preempts(w),
			slices.Contains(silent, w.ID), served, refused})
	}
	return rows, nil
}

// path returns the address of a page of this list.
func (v *List) path(page, after string) string {
	q := v.Filter.values()
	if after != "" {
		q.Set("after", after)
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}

// live returns the address of the list's stream. Only the newest page has one.
func (v *List) live() string {
	if v.After != "" || v.Stale {
		return ""
	}
	return v.path("/workers/live", "")
}

// over reports whether the worker is terminated.
func (r workerRow) over() bool { return r.Status == models.WorkerTerminated }

func (r workerRow) drainable() bool {
	return change.CanWorkerMove(r.Status, models.WorkerDraining)
}

// name returns the name of a worker for display, with marks of direction spelled out.
func (r workerRow) name() string { return address.WorkerName(r.Worker) }

// preemptable reports whether the machine can be preempted.
func (r workerRow) preemptable() bool { return r.Preemptable && !r.over() }
