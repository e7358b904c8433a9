package workers

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

const (
	// noPool stands for the workers without a pool in addresses.
	noPool = "-"
	// maxFilterValue bounds the values of an address in bytes.
	maxFilterValue = 200
)

// workerFilter is what an address asks for of the workers.
type workerFilter struct {
	// State is one of workerStates, or "" for all that are not terminated.
	State string
	// Pool is a pool's name, or "-" for workers without one.
	Pool, GPU, Zone, Version string
	// Grid asks for tiles by pool, GPU and zone instead of a table.
	Grid bool
}

// workerStates are the choices of state, with their names.
var workerStates = []struct{ value, label string }{
	{"", "Active"}, {"booting", "Booting"}, {"idle", "Idle"}, {"busy", "Busy"}, {"draining", "Draining"}, {"lost", "Lost"},
	{"quarantined", "Quarantined"}, {"terminated", "Terminated"}, {"all", "All"},
}

// workerFilterOf reads the filter of an address. problem says what is wrong with it, or is "".
func workerFilterOf(r *http.Request) (f workerFilter, problem string) {
	q := r.URL.Query()
	f = workerFilter{
		State: strings.ToLower(q.Get("state")), Pool: q.Get("pool"), GPU: q.Get("gpu"), Zone: q.Get("zone"), Version: q.Get("version"),
		Grid: q.Get("view") == "grid",
	}
	if q.Get("all") != "" && f.State == "" { // as addresses had it before there were states
		f.State = "all"
	}
	for _, value := range []*string{&f.Pool, &f.GPU, &f.Zone, &f.Version} {
		if len(*value) > maxFilterValue || strings.ContainsRune(*value, 0) {
			*value, problem = "", "A filter is longer than 200 bytes, or holds a character that no name has. It was ignored."
		}
	}
	for _, known := range workerStates {
		if known.value == f.State {
			return f, problem
		}
	}
	f.State = ""
	return f, "There is no such state of a worker. All active workers are shown."
}

// in turns the filter into one of rows, with the ids of these pools. known is false if no pool has
// the name that is asked for.
func (f *workerFilter) in(pools []*query.PoolStatus) (rows models.WorkerFilter, known bool) {
	rows = models.WorkerFilter{Status: Present, GPUType: f.GPU, Zone: f.Zone, Version: f.Version, NoPool: f.Pool == noPool}
	switch f.State {
	case "", "quarantined":
		rows.Quarantined = f.State != ""
	case "all":
		rows.Status = nil
	default:
		rows.Status = []models.WorkerStatus{models.WorkerStatus(strings.ToUpper(f.State))}
	}
	if f.Pool == "" || rows.NoPool {
		return rows, true
	}
	pool, known := lo.Find(pools, func(p *query.PoolStatus) bool { return p.Name == f.Pool })
	if known {
		rows.PoolID = pool.ID
	}
	return rows, known
}

// Values are the filter as parts of an address.
func (f *workerFilter) values() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "pool": f.Pool, "gpu": f.GPU, "zone": f.Zone, "version": f.Version} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Grid {
		q.Set("view", "grid")
	}
	return q
}

// narrow reports whether the filter leaves out active workers.
func (f *workerFilter) narrow() bool {
	return f.Pool != "" || f.GPU != "" || f.Zone != "" || f.Version != "" || f.State != "" && f.State != "all"
}

// workerChoice is a control of the filter: a value is shown as its label.
type workerChoice struct {
	name, label, any string
	chosen           string
	values           []string
}

// choices are the controls, with the values that active workers have.
func (v *List) choices() []workerChoice {
	of := func(name, label, any, chosen string, values func(*models.WorkerGroup) []string) workerChoice {
		all := lo.Uniq(append(lo.Filter(lo.FlatMap(v.Groups, func(g *models.WorkerGroup, _ int) []string { return values(g) }),
			func(s string, _ int) bool { return s != "" }), lo.Ternary(chosen == "", []string(nil), []string{chosen})...))
		slices.Sort(all)
		return workerChoice{name, label, any, chosen, all}
	}
	return []workerChoice{
		of("pool", "Pool", "All pools", v.Filter.Pool, func(g *models.WorkerGroup) []string {
			return []string{lo.Ternary(g.Pool == "", noPool, g.Pool)}
		}),
		of("gpu", "GPU", "All GPUs", v.Filter.GPU, func(g *models.WorkerGroup) []string { return []string{g.GPUType} }),
		of("zone", "Zone", "All zones", v.Filter.Zone, func(g *models.WorkerGroup) []string { return []string{placeOf(g)} }),
		of("version", "Version", "All versions", v.Filter.Version, func(g *models.WorkerGroup) []string { return g.Versions }),
	}
}

// placeOf names where a group's workers are: their zone, or their region if they have none.
func placeOf(g *models.WorkerGroup) string {
	if g.Zone != "" {
		return g.Zone
	}
	return g.Region
}

// choiceLabel is a value as it is shown.
func (c *workerChoice) choiceLabel(value string) string {
	if c.name == "pool" && value == noPool {
		return "no pool"
	}
	return value
}

// groupPath returns the address of the workers of a group.
func (v *List) groupPath(g *models.WorkerGroup) string {
	f := v.Filter
	f.Pool, f.GPU, f.Zone = lo.Ternary(g.Pool == "", noPool, g.Pool), g.GPUType, placeOf(g)
	return "/workers?" + f.values().Encode()
}

// workerView is a way to show the same workers.
type workerView struct {
	label, path string
	current     bool
}

// views are the table and the tiles.
func (v *List) views() (all []workerView) {
	for _, grid := range []bool{false, true} {
		shown := List{Filter: v.Filter}
		shown.Filter.Grid = grid
		all = append(all, workerView{lo.Ternary(grid, "Grid", "Table"), shown.path("/workers", ""), grid == v.Filter.Grid})
	}
	return all
}

// clearPath returns the address of all active workers.
func (v *List) clearPath() string {
	all := List{Filter: workerFilter{Grid: v.Filter.Grid}}
	return all.path("/workers", "")
}
