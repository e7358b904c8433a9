package queues

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/trends"
	"github.com/samber/lo"
)

const (
	// decisionsShown is the number of a pool's scaling decisions on the page, of the newest
	// decisionsFolded: equal ones in a row are one line.
	decisionsShown, decisionsFolded = 5, 30
	// sharesShown is the number of accounts beside a lane.
	sharesShown = 2
)

// queueList is the view of the page with queues.
type queueList struct {
	// Lanes are all lanes, with or without jobs.
	Lanes []LaneView
	Pools []poolView
	Now   time.Time
}

// LaneView is one lane: all of its jobs, and its jobs by model.
type LaneView struct {
	QueueView
	Models []QueueView
	// PausedDepth is how many of its waiting jobs are in queues that are paused.
	PausedDepth int
	// Shares are the accounts with the most waiting jobs.
	Shares []*backlog.LaneShare
}

// QueueView is a lane, or one model's jobs in it.
type QueueView struct {
	backlog.QueueCount
	// Own is the pause of just this, even if the lane is paused, too.
	Own *models.Pause
	// PausedModels are those of a lane that are paused while the lane is not.
	PausedModels []string
	// OldestFrozen is whether the longest wait stands still: its queue is paused, or leases are halted.
	OldestFrozen bool
	// Wait is how long jobs waited that started within the last hour, or nil if none did.
	Wait *query.QueueWait
	// Limit is what workers and pools can do for it, and how long that takes. A lane is at the
	// maximum if one of its models with waiting jobs is.
	Limit query.QueueCapacity
	// ForProvider says how many of its jobs wait for a hosted provider, or is nil.
	ForProvider *query.ProviderWait
}

type poolView struct {
	*query.PoolStatus
	Decisions []*capacity.ScalingDecision
}

// decisions are the newest ones, with equal ones in a row as one.
func (p poolView) decisions() []query.Same[*capacity.ScalingDecision] {
	folded := query.FoldDecisions(p.Decisions)
	return folded[:min(len(folded), decisionsShown)]
}

func (c *controller) queueList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readQueues(r.Context(), p)
	if err != nil {
		return err
	}
	v.Now = time.Now()
	charts, err := c.readQueueCharts(r.Context(), trends.RangeOf(r), "")
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, queueListPage(v, charts))
}

func (c *controller) queueListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.Refresh(w, r, p, "/queues/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
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

func (c *controller) readQueues(ctx context.Context, p jobs.Principal) (*queueList, error) {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.CountPrice)
	if err != nil {
		return nil, err
	}
	defer read.End()
	v := new(queueList)
	pools, err := c.Reads.Fleet.Pools(ctx)
	if err != nil {
		return nil, err
	}
	if v.Lanes, err = c.readLanes(ctx, p, sharesShown, ""); err != nil {
		return nil, err
	}
	ids := make([]models.PoolID, len(pools))
	for i, pool := range pools {
		ids[i] = pool.ID
	}
	decisions, err := c.Reads.Fleet.ScalingHistories(ctx, ids, decisionsFolded)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		v.Pools = append(v.Pools, poolView{pool, decisions[pool.ID]})
	}
	return v, nil
}

// readLanes reads all lanes, and of each lane, or of just one, the accounts with the most waiting
// jobs.
func (c *controller) readLanes(ctx context.Context, p jobs.Principal, accounts int, of models.Tier) ([]LaneView, error) {
	queues, err := c.Reads.Queues.Counts(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := c.Reads.Queues.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	halts, err := c.Reads.Queues.Halts(ctx, p)
	if err != nil {
		return nil, err
	}
	waits, err := c.Reads.Queues.Waits(ctx)
	if err != nil {
		return nil, err
	}
	shares, err := c.Reads.Queues.Shares(ctx, of, accounts)
	if err != nil {
		return nil, err
	}
	for _, tier := range models.Tiers {
		queues = append(queues, backlog.QueueCount{Lane: tier})
	}
	capacities, err := c.Reads.Queues.Capacities(ctx, queues)
	if err != nil {
		return nil, err
	}
	limits := lo.KeyBy(capacities, func(q query.QueueCapacity) [2]string { return [2]string{string(q.Lane), q.Model} })
	lanes := Lanes(queues, pauses, halts)
	for i := range lanes {
		lane := &lanes[i]
		lane.Wait, lane.Limit = waitOf(waits, lane.Lane, ""), limits[[2]string{string(lane.Lane), ""}]
		for j := range lane.Models {
			q := &lane.Models[j]
			q.Wait, q.Limit = waitOf(waits, q.Lane, q.Model), limits[[2]string{string(q.Lane), q.Model}]
			lane.Limit.AtMaximum = lane.Limit.AtMaximum || q.full()
			q.ForProvider = q.Limit.ProviderWait(q.Depth)
			lane.ForProvider = sumWaits(lane.ForProvider, q.ForProvider)
		}
		for _, share := range shares {
			if share.Lane == lane.Lane {
				lane.Shares = append(lane.Shares, share)
			}
		}
	}
	return lanes, nil
}

// sumWaits adds the jobs of a queue that wait for a provider to those of its lane, which has no reason of its own.
func sumWaits(lane, queue *query.ProviderWait) *query.ProviderWait {
	if queue == nil {
		return lane
	}
	sum := &query.ProviderWait{Jobs: queue.Jobs, WaitingReason: query.WaitingReason{Code: queue.Code}}
	if lane != nil {
		if sum.Jobs += lane.Jobs; lane.Code != queue.Code {
			sum.Code = query.WaitProviderAway
		}
	}
	return sum
}

func waitOf(waits []query.QueueWait, lane models.Tier, model string) *query.QueueWait {
	for i, w := range waits {
		if w.Lane == lane && w.Model == model {
			return &waits[i]
		}
	}
	return nil
}

// LeasesHalted reports whether no queue gives jobs to workers.
func LeasesHalted(halts []models.Halt) bool {
	return slices.ContainsFunc(halts, func(h models.Halt) bool { return h.What == models.HaltLeases })
}

// Lanes sums the queues by lane.
func Lanes(queues []backlog.QueueCount, pauses []models.Pause, halts []models.Halt) []LaneView {
	var lanes []LaneView
	halted := LeasesHalted(halts)
	for _, tier := range models.Tiers {
		pause := pauseOf(pauses, tier, "")
		lane := LaneView{QueueView: QueueView{QueueCount: backlog.QueueCount{Lane: tier, Pause: pause}, Own: pause}}
		for _, q := range queues {
			if q.Lane != tier || q.Model == "" {
				continue
			}
			lane.Depth += q.Depth
			lane.Running += q.Running
			lane.GPUSeconds += q.GPUSeconds
			lane.Promoted += q.Promoted
			if Longer(q.OldestWaitSeconds, lane.OldestWaitSeconds) {
				lane.OldestWaitSeconds, lane.OldestQueuedAt, lane.OldestFrozen = q.OldestWaitSeconds, q.OldestQueuedAt, q.Paused() || halted
			}
			if Longer(q.PromotedWaitSeconds, lane.PromotedWaitSeconds) {
				lane.PromotedWaitSeconds = q.PromotedWaitSeconds
			}
			if q.Paused() {
				lane.PausedDepth += q.Depth
			}
			own := pauseOf(pauses, tier, q.Model)
			if own != nil && pause == nil {
				lane.PausedModels = append(lane.PausedModels, q.Model)
			}
			lane.Models = append(lane.Models, QueueView{QueueCount: q, Own: own, OldestFrozen: q.Paused() || halted})
		}
		lanes = append(lanes, lane)
	}
	return lanes
}

// Longer reports whether a wait is known and longer than another.
func Longer(wait, than *float64) bool { return wait != nil && (than == nil || *wait > *than) }

// pauseOf returns the pause of a whole lane, or of one model in it.
func pauseOf(pauses []models.Pause, lane models.Tier, model string) *models.Pause {
	i := slices.IndexFunc(pauses, func(p models.Pause) bool { return p.Lane == lane && p.Model == model })
	if i < 0 {
		return nil
	}
	return &pauses[i]
}

// queuePath returns the address of an action on a lane, or on one model in it.
func queuePath(lane models.Tier, model, action string) string {
	path := address.Lane(lane) + "/" + action
	if model == "" {
		return path
	}
	return path + "?" + url.Values{"model": {model}}.Encode()
}

// queuedJobs returns the address of the jobs that wait in a queue.
func queuedJobs(q backlog.QueueCount) string {
	jobs := address.Jobs{Status: []models.JobStatus{models.JobQueued}, Search: address.SearchTerm("tier", strings.ToLower(string(q.Lane)))}
	if q.Model != "" {
		jobs.Search += " " + address.SearchTerm("model", q.Model)
	}
	return jobs.Path("/jobs")
}
