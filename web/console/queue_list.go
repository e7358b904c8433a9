package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
)

// decisionsShown is the number of a pool's scaling decisions on the page.
const decisionsShown = 8

// queueList is the view of the page with queues.
type queueList struct {
	// Lanes are all lanes, with or without jobs.
	Lanes []laneView
	Pools []poolView
	Now   time.Time
}

// laneView is one lane: all of its jobs, and its jobs by model.
type laneView struct {
	models.QueueCount
	Models []queueView
}

// queueView is one model's jobs in a lane.
type queueView struct {
	models.QueueCount
	// Own is the pause of the model itself, even if the lane is paused, too.
	Own *models.Pause
}

type poolView struct {
	*query.PoolStatus
	Decisions []*models.ScalingDecision
}

func (c *console) queueList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readQueues(r.Context(), p)
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return render(w, r, http.StatusOK, queueListPage(v))
}

func (c *console) queueListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.refresh(w, r, p, "/queues/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		v, err := c.readQueues(ctx, p)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return queueTables(v)
		}, nil
	})
}

func (c *console) readQueues(ctx context.Context, p jobs.Principal) (*queueList, error) {
	ctx, read, err := c.Reader.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := new(queueList)
	queues, err := c.Reader.Queues(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := c.Reader.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	v.Lanes = lanesOf(queues, pauses)
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

// lanesOf sums the queues by lane.
func lanesOf(queues []models.QueueCount, pauses []models.Pause) []laneView {
	var lanes []laneView
	for _, tier := range models.Tiers {
		lane := laneView{QueueCount: models.QueueCount{Lane: tier, Pause: pauseOf(pauses, tier, "")}}
		for _, q := range queues {
			if q.Lane != tier || q.Model == "" {
				continue
			}
			lane.Depth += q.Depth
			lane.Running += q.Running
			lane.GPUSeconds += q.GPUSeconds
			if lane.OldestQueuedAt.IsZero() || !q.OldestQueuedAt.IsZero() && q.OldestQueuedAt.Before(lane.OldestQueuedAt) {
				lane.OldestQueuedAt = q.OldestQueuedAt
			}
			lane.Models = append(lane.Models, queueView{q, pauseOf(pauses, tier, q.Model)})
		}
		lanes = append(lanes, lane)
	}
	return lanes
}

// pauseOf returns the pause of a whole lane, or of one model in it.
func pauseOf(pauses []models.Pause, lane models.Tier, model string) *models.Pause {
	i := slices.IndexFunc(pauses, func(p models.Pause) bool { return p.Lane == lane && p.Model == model })
	if i < 0 {
		return nil
	}
	return &pauses[i]
}

// depthShare returns a queue's depth relative to the deepest lane, from 0 to 100.
func (v *queueList) depthShare(q models.QueueCount) float64 {
	deepest := 1
	for _, lane := range v.Lanes {
		deepest = max(deepest, lane.Depth)
	}
	return 100 * float64(q.Depth) / float64(deepest)
}

// queuePath returns the address of an action on a lane, or on one model in it.
func queuePath(lane models.Tier, model, action string) string {
	path := "/queues/" + strings.ToLower(string(lane)) + "/" + action
	if model == "" {
		return path
	}
	return path + "?" + url.Values{"model": {model}}.Encode()
}

// queuedJobs returns the address of the jobs that wait in a queue.
func queuedJobs(q models.QueueCount) string {
	jobs := jobQuery{Status: []models.JobStatus{models.JobQueued}, Search: searchTerm("tier", strings.ToLower(string(q.Lane)))}
	if q.Model != "" {
		jobs.Search += " " + searchTerm("model", q.Model)
	}
	return jobs.path("/jobs")
}
