package pools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/workers"
	"github.com/reelay/reelay/web/ui"
)

const (
	// chartWindow is how long the chart of a pool goes back.
	chartWindow = 24 * time.Hour
	// decisionsRead is how many decisions the chart shows at most. decisionsListed is how many
	// of them the table lists.
	decisionsRead, decisionsListed = 200, 50
)

// poolShow is the view of one pool's page.
type poolShow struct {
	poolRow
	// Explanation is what the scaler would do now.
	Explanation *fleet.Explanation
	// Warnings are as in [fleet.Pools.Warnings].
	Warnings []string
	// Decisions are the newest ones, newest first.
	Decisions []*capacity.ScalingDecision
	// Past is the history of the last day, oldest first.
	Past    []*history.Figures
	Workers *workers.List
	// Machines are the newest of the ledger.
	Machines []*capacity.BilledMachine
	// Reclamations are what the provider took of the pool in the last 24 hours.
	Reclamations []*capacity.Reclamation
	// Prices is what a worker cost in the last hours, oldest first.
	Prices []*capacity.PriceStep
	// Paid is what the machines of the last paidHours were paid for.
	Paid models.Paid
	// ProviderSlots and ProviderErrors are those of the pool's hosted provider.
	ProviderSlots  []*capacity.ProviderSlot
	ProviderErrors []*capacity.ProviderError
	Now            time.Time
}

func (c *controller) poolShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readPool(r.Context(), p, poolID(r))
	if err != nil {
		return err
	}
	v.at(time.Now())
	return shell.Render(w, r, http.StatusOK, poolShowPage(v))
}

func (c *controller) poolShowLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := poolID(r)
	return c.Refresh(w, r, p, "/pools/"+string(id)+"/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readPool(ctx, p, id)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.at(now)
			return poolPart(v)
		}, nil
	})
}

// at sets the time to which the page's times are relative.
func (v *poolShow) at(now time.Time) { v.Now, v.Workers.Now = now, now }

func (c *controller) readPool(ctx context.Context, p jobs.Principal, id models.PoolID) (*poolShow, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	pool, err := c.Reads.Fleet.Pool(ctx, id)
	if err != nil {
		return nil, err
	}
	v := &poolShow{poolRow: poolRowOf(pool, nil), Warnings: c.Pools.Warnings(pool.Pool), Workers: new(workers.List)}
	if v.Explanation, err = c.Pools.Explain(ctx, p, id); err != nil {
		return nil, err
	}
	decisions, err := c.Reads.Fleet.ScalingHistories(ctx, []models.PoolID{id}, decisionsRead)
	if err != nil {
		return nil, err
	}
	v.Decisions = decisions[id]
	if pool.ProviderAccount != nil {
		if v.ProviderSlots, err = c.Reads.Fleet.ProviderSlots(ctx, id); err != nil {
			return nil, err
		}
		if v.ProviderErrors, err = c.Reads.Fleet.ProviderErrors(ctx, id); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	if v.Past, err = c.Reads.History.Timeline.Series(ctx, now.Add(-chartWindow), now, 10*time.Minute); err != nil {
		return nil, err
	}
	prices, err := c.Reads.Fleet.PriceHistories(ctx, []models.PoolID{id}, priceHours)
	if err != nil {
		return nil, err
	}
	v.Prices = prices[id]
	paid, err := c.Reads.History.Paid(ctx, p, paidHours)
	if err != nil {
		return nil, err
	}
	v.Paid = paid[pool.Name]
	if v.Reclamations, err = c.Reads.Fleet.Reclamations(ctx, id); err != nil {
		return nil, err
	}
	machines, err := c.Reads.Fleet.Machines(ctx, p, capacity.MachineFilter{PoolID: id}, paging.Request{First: machinesListed})
	if err != nil {
		return nil, err
	}
	v.Machines = machines.Items
	page, err := c.Reads.Fleet.Workers(ctx, models.WorkerFilter{PoolID: id, Status: workers.Present}, paging.Request{First: workers.ListSize})
	if err != nil {
		return nil, err
	}
	v.Workers.Rows, err = workers.ReadRows(ctx, c.Reads, p, c.Fleet, page.Items, []*query.PoolStatus{pool})
	return v, err
}

// listed are the decisions in the table. Equal ones in a row are one line.
func (v *poolShow) listed() []query.Same[*capacity.ScalingDecision] {
	folded := query.FoldDecisions(v.Decisions)
	return folded[:min(len(folded), decisionsListed)]
}

// pretty indents JSON.
func pretty(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return string(raw)
	}
	return out.String()
}

func (c *controller) poolPause(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	pool, err := c.Pools.Pause(r.Context(), p, poolID(r))
	return c.toPool(w, r, pool, err, "Paused %s: it boots no workers. Those that it has go on.")
}

func (c *controller) poolResume(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	pool, err := c.Pools.Resume(r.Context(), p, poolID(r))
	return c.toPool(w, r, pool, err, "Resumed %s.")
}

// poolRemoval is the view of the page that confirms the deletion of a pool.
type poolRemoval struct {
	*query.PoolStatus
	Error string
}

// poolConfirm asks before a pool is deleted.
func (c *controller) poolConfirm(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	pool, err := c.Reads.Fleet.Pool(r.Context(), poolID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, poolDeletePage(poolRemoval{PoolStatus: pool}))
}

func (c *controller) poolDelete(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	err := c.Pools.Delete(r.Context(), p, poolID(r))
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeConflict {
		pool, err := c.Reads.Fleet.Pool(r.Context(), poolID(r))
		if err != nil {
			return err
		}
		return shell.Render(w, r, http.StatusConflict, poolDeletePage(poolRemoval{pool, refused.Message}))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, "/pools", "Deleted the pool.")
}

// toPool returns to the page of a pool, with what was done to it. said has a %s for its name.
func (c *controller) toPool(w http.ResponseWriter, r *http.Request, pool *capacity.Pool, err error, said string) error {
	if err != nil {
		return err
	}
	return c.Done(w, r, string(address.Pool(pool.ID)), fmt.Sprintf(said, "the pool "+ui.Clip(ui.Upright(pool.Name), 80)))
}
