package pools

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/shell"
)

const (
	machinesPath = "/pools/machines"
	// machinesOnPage is the number of machines on a page of the ledger, and machinesListed that on the page
	// of a pool.
	machinesOnPage, machinesListed = 50, 10
	// workersLinked is how many workers of a machine a line links.
	workersLinked = 4
)

// machineList is the view of the ledger of machines.
type machineList struct {
	Rows   []*capacity.BilledMachine
	Filter machineFilter
	// Pools are the names of the pools to choose from.
	Pools []string
	// Problem says what is wrong with the address, or is "".
	Problem      string
	After, Older string
	// Stale is true if the requested page of the list no longer exists.
	Stale bool
	Now   time.Time
}

// machineFilter is what an address asks for of the machines.
type machineFilter struct {
	// Pool is the name or the id of a pool, Instance the provider's name of a machine.
	Pool, State, Instance string
}

// machineListOf returns the page that an address asks for, without its rows.
func machineListOf(r *http.Request) *machineList {
	q := r.URL.Query()
	v := &machineList{After: q.Get("after"),
		Filter: machineFilter{Pool: q.Get("pool"), State: strings.ToLower(q.Get("state")), Instance: strings.TrimSpace(q.Get("instance"))}}
	for _, value := range []*string{&v.Filter.Pool, &v.Filter.Instance} {
		if !text.Valid(*value, 0, text.MaxName) {
			*value, v.Problem = "", "A filter is too long, or holds a character that no name has. It was ignored."
		}
	}
	if v.Filter.State != "" && !slices.Contains(capacity.MachineStates, v.Filter.state()) {
		v.Filter.State, v.Problem = "", "There is no such state of a machine. All machines are shown."
	}
	return v
}

func (f *machineFilter) state() capacity.MachineState {
	return capacity.MachineState(strings.ToUpper(f.State))
}

// rows turns the filter into one of rows.
func (f *machineFilter) rows() capacity.MachineFilter {
	rows := capacity.MachineFilter{PoolID: models.PoolID(f.Pool), InstanceID: f.Instance}
	if f.State != "" {
		rows.States = []capacity.MachineState{f.state()}
	}
	return rows
}

// narrow reports whether the filter leaves out machines.
func (f *machineFilter) narrow() bool { return *f != machineFilter{} }

// path returns the address of a page of this list.
func (v *machineList) path(page, after string) string {
	q := url.Values{}
	for name, value := range map[string]string{"pool": v.Filter.Pool, "state": v.Filter.State, "instance": v.Filter.Instance, "after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}

// live returns the address of the list's stream. Only the newest page has one.
func (v *machineList) live() string {
	if v.After != "" || v.Stale {
		return ""
	}
	return v.path(machinesPath+"/live", "")
}

// choices are the pools to choose from, with that of the address.
func (v *machineList) choices() []string {
	if v.Filter.Pool == "" || slices.Contains(v.Pools, v.Filter.Pool) {
		return v.Pools
	}
	return append(slices.Clone(v.Pools), v.Filter.Pool) // a deleted pool, or an id
}

func (c *controller) machineList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v := machineListOf(r)
	status := http.StatusOK
	if err := c.readMachines(r.Context(), p, v); shell.IsStalePage(err) {
		v.Stale, status = true, http.StatusUnprocessableEntity
	} else if err != nil {
		return err
	}
	if v.Problem != "" {
		status = http.StatusUnprocessableEntity
	}
	v.Now = time.Now()
	return shell.Render(w, r, status, machineListPage(v))
}

func (c *controller) machineListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	asked := machineListOf(r)
	return c.Refresh(w, r, p, asked.path(machinesPath+"/live", asked.After),
		func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
			v := *asked
			if err := c.readMachines(ctx, p, &v); err != nil {
				return nil, err
			}
			return func(now time.Time) templ.Component {
				v.Now = now
				return machineTable(&v)
			}, nil
		})
}

func (c *controller) readMachines(ctx context.Context, p jobs.Principal, v *machineList) error {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.PagePrice(machinesOnPage))
	if err != nil {
		return err
	}
	defer read.End()
	pools, err := c.Reads.Fleet.Pools(ctx)
	if err != nil {
		return err
	}
	for _, pool := range pools {
		v.Pools = append(v.Pools, pool.Name)
	}
	page, err := c.Reads.Fleet.Machines(ctx, p, v.Filter.rows(), paging.Request{First: machinesOnPage, After: v.After})
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeNotFound { // a pool that does not exist has no machines
		return nil
	}
	if err != nil {
		return err
	}
	v.Rows = page.Items
	if page.More {
		v.Older = v.path(machinesPath, page.End)
	}
	return nil
}
