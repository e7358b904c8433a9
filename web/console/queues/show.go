package queues

import (
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/trends"
)

const (
	// laneAccounts is the number of accounts on a lane's page, and laneHeads that of the next jobs.
	laneAccounts = 50
	laneHeads    = 20
)

// queueShow is the view of a lane's page.
type queueShow struct {
	LaneView
	Heads []headRow
	Now   time.Time
}

// headRow is one of the next jobs of a lane, and what it waits for.
type headRow struct {
	*models.Job
	Account string
	Why     []query.WaitingReason
}

func (c *controller) queueShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	lane, _, err := c.queueOf(r)
	if err != nil {
		return err
	}
	v, err := c.readLane(r.Context(), p, lane)
	if err != nil {
		return err
	}
	v.Now = time.Now()
	charts, err := c.readQueueCharts(r.Context(), trends.RangeOf(r), lane)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, queueShowPage(v, charts))
}

func (c *controller) queueShowLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	lane, _, err := c.queueOf(r)
	if err != nil {
		return err
	}
	return c.Refresh(w, r, p, address.Lane(lane)+"/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readLane(ctx, p, lane)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return laneParts(v)
		}, nil
	})
}

func (c *controller) readLane(ctx context.Context, p jobs.Principal, lane models.Tier) (*queueShow, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	lanes, err := c.readLanes(ctx, p, laneAccounts, lane)
	if err != nil {
		return nil, err
	}
	v := new(queueShow)
	for _, l := range lanes {
		if l.Lane == lane {
			v.LaneView = l
		}
	}
	heads, err := c.Reads.Queues.Heads(ctx, lane, laneHeads)
	if err != nil || len(heads) == 0 {
		return v, err
	}
	var owners []models.AccountID
	for _, job := range heads {
		owners = append(owners, job.AccountID)
	}
	edges, err := c.Reads.Jobs.Of(p, heads...)
	if err != nil {
		return nil, err
	}
	why, err := c.Reads.Jobs.WaitingFor(ctx, edges)
	if err != nil {
		return nil, err
	}
	accounts, err := c.Reads.Directory.Accounts(ctx, owners)
	if err != nil {
		return nil, err
	}
	names := map[models.AccountID]string{}
	for _, a := range accounts {
		names[a.ID] = a.Name
	}
	for _, job := range heads {
		v.Heads = append(v.Heads, headRow{job, names[job.AccountID], why[job.ID]})
	}
	return v, nil
}
