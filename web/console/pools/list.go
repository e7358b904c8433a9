package pools

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// poolList is the view of the page with pools.
type poolList struct {
	Rows []poolRow
	Now  time.Time
}

type poolRow struct {
	*query.PoolStatus
	State fleet.State
	// Waits is true while the pool boots no worker because its provider refused machines.
	Waits bool
	// Newest is the scaler's newest decision, or nil.
	Newest *capacity.ScalingDecision
}

func poolID(r *http.Request) models.PoolID { return models.PoolID(r.PathValue("id")) }

func (c *controller) poolList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readPools(r.Context(), p)
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, poolListPage(v))
}

func (c *controller) poolListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.Refresh(w, r, p, "/pools/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		v, err := c.readPools(ctx, p)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return poolTable(v)
		}, nil
	})
}

func (c *controller) readPools(ctx context.Context, p jobs.Principal) (*poolList, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	pools, err := c.Reads.Fleet.Pools(ctx)
	if err != nil {
		return nil, err
	}
	ids := lo.Map(pools, func(pool *query.PoolStatus, _ int) models.PoolID { return pool.ID })
	decisions, err := c.Reads.Fleet.ScalingHistories(ctx, ids, 1)
	if err != nil {
		return nil, err
	}
	v := new(poolList)
	for _, pool := range pools {
		newest, _ := lo.First(decisions[pool.ID])
		v.Rows = append(v.Rows, poolRowOf(pool, newest))
	}
	return v, nil
}

func poolRowOf(pool *query.PoolStatus, newest *capacity.ScalingDecision) poolRow {
	now := time.Now()
	return poolRow{PoolStatus: pool, State: fleet.StateOf(pool.Pool, now), Waits: pool.BackoffUntil.After(now), Newest: newest}
}

// place is where the machines are.
func (r poolRow) place() string {
	if len(r.Zones) == 0 {
		return r.Region
	}
	return r.Region + ": " + strings.Join(r.Zones, ", ")
}

// Wanted is how many workers the scaler wants. It does not decide about machines that come by
// themselves.
func Wanted(pool *query.PoolStatus) string {
	if !fleet.Scaled(pool.Provider) {
		return ui.Unknown
	}
	return strconv.Itoa(pool.Desired)
}

// counts are the workers by state.
func (r poolRow) counts() string {
	return fmt.Sprintf("%d booting, %d idle, %d busy, %d draining", r.Booting, r.Idle, r.Busy, r.Draining)
}

// poolSpans are the workers of a pool by what they do, as parts of the most that it may have.
func poolSpans(pool *query.PoolStatus) (spans []ui.Span) {
	from := 0.0
	all := max(pool.MaxWorkers, pool.Busy+pool.Idle+pool.Booting, 1)
	for _, part := range []struct {
		state string
		n     int
	}{{"busy", pool.Busy}, {"idle", pool.Idle}, {"booting", pool.Booting}} {
		if part.n > 0 {
			to := from + shell.PercentOf(part.n, all)
			spans = append(spans, ui.Span{State: part.state, From: from, To: to, Title: strconv.Itoa(part.n) + " " + part.state})
			from = to
		}
	}
	return spans
}

func poolBarWords(pool *query.PoolStatus) string {
	return fmt.Sprintf("%d busy, %d idle and %d booting of at most %d workers", pool.Busy, pool.Idle, pool.Booting, pool.MaxWorkers)
}
