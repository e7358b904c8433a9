package web

import (
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

// decisionsShown is how many of a pool's scaling decisions a page shows.
const decisionsShown = 8

// queueList is the view of the queues' page.
type queueList struct {
	Queues []models.QueueCount
	Pools  []poolView
	Now    time.Time
}

type poolView struct {
	*jobs.PoolStatus
	Decisions []*models.ScalingDecision
}

func (c *console) queueList(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	v, err := c.readQueues(r.Context())
	if err != nil {
		return err
	}
	return render(w, r, http.StatusOK, queueListPage(v))
}

func (c *console) queueListLive(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return refresh(w, r, func(ctx context.Context) (templ.Component, error) {
		v, err := c.readQueues(ctx)
		if err != nil {
			return nil, err
		}
		return queueTables(v), nil
	})
}

func (c *console) readQueues(ctx context.Context) (*queueList, error) {
	v := &queueList{Now: time.Now()}
	var err error
	if v.Queues, err = c.Reader.Queues(ctx); err != nil {
		return nil, err
	}
	pools, err := c.Reader.Pools(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]models.PoolID, len(pools))
	for i, pool := range pools {
		ids[i] = pool.ID
	}
	decisions, err := c.Reader.ScalingHistories(ctx, ids, decisionsShown)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		v.Pools = append(v.Pools, poolView{pool, decisions[pool.ID]})
	}
	return v, nil
}

// depthShare is a queue's depth relative to the deepest one, from 0 to 100.
func (v *queueList) depthShare(q models.QueueCount) float64 {
	deepest := 1
	for _, other := range v.Queues {
		deepest = max(deepest, other.Depth)
	}
	return 100 * float64(q.Depth) / float64(deepest)
}
