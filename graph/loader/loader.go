// Package loader reads the edges between rows in batches. gqlgen resolves each field of
// each object on its own; a loader collects the keys that fields ask for within a moment
// and reads them with one query.
package loader

import (
	"context"
	"errors"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/costs"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/samber/lo"
	"github.com/vikstrous/dataloadgen"
)

// Wait is how long a batch collects keys. The fields of a page ask within a fraction of
// it. A field that asks later, on a busy machine, costs a second query.
const Wait = 2 * time.Millisecond

// Loader reads values by key. It reads each key once.
type Loader[K comparable, V any] struct {
	batches *dataloadgen.Loader[K, V]
}

// Load returns the value of a key, or V's zero value if there is none. The zero key has
// no value.
func (l Loader[K, V]) Load(ctx context.Context, key K) (value V, err error) {
	var zero K
	if key == zero {
		return value, nil
	}
	value, err = l.batches.Load(ctx, key)
	if errors.Is(err, dataloadgen.ErrNotFound) {
		err = nil
	}
	return value, err
}

// fetch reads the values of many keys. It leaves out keys that have no value.
type fetch[K comparable, V any] func(context.Context, []K) (map[K]V, error)

// Options are the settings of the loaders of one response.
type Options struct {
	// Principal is the caller whom the response is for.
	Principal jobs.Principal
	Schedules *schedule.Schedules
	// Reads returns the context for the query of one batch. Batches read with their own
	// context if it is nil.
	Reads func(context.Context) (context.Context, error)
	// Wait is how long a batch collects keys: the constant Wait if it is 0.
	Wait time.Duration
}

// newLoader returns a loader over fetch.
func newLoader[K comparable, V any](o Options, f fetch[K, V]) Loader[K, V] {
	return Loader[K, V]{dataloadgen.NewMappedLoader(func(ctx context.Context, keys []K) (values map[K]V, err error) {
		defer func() { // dataloadgen would hide the stack
			if p := recover(); p != nil {
				err = failure.FromPanic(ctx, p)
			}
		}()
		if o.Reads != nil {
			if ctx, err = o.Reads(ctx); err != nil {
				return nil, err
			}
		}
		return f(ctx, keys)
	}, dataloadgen.WithWait(o.Wait))}
}

// Loaders are the loaders of one response. A later response gets new ones, because what
// an earlier one read may have changed.
type Loaders struct {
	Prompts        Loader[*models.Job, query.Prompt]
	WaitingFor     Loader[*models.Job, []query.WaitingReason]
	Placements     Loader[*models.Job, []*query.Placement]
	Attempts       Loader[*models.Job, []*models.Attempt]
	Events         Loader[EventPage, *paging.Page[*models.JobEvent]]
	JobArtifacts   Loader[*models.Job, []*models.Artifact]
	InputFiles     Loader[*models.Job, []*models.InputFile]
	Artifacts      Loader[models.ArtifactID, *models.Artifact]
	Workers        Loader[models.WorkerID, *models.Worker]
	Accounts       Loader[models.AccountID, *models.Account]
	GPUs           Loader[models.WorkerID, []*models.GPUState]
	GPUHistory     Loader[models.WorkerID, *capacity.GPUHistory]
	WorkerCosts    Loader[models.WorkerID, *costs.WorkerCost]
	Pools          Loader[models.PoolID, *query.PoolStatus]
	CurrentJobs    Loader[models.WorkerID, *models.Job]
	Parents        Loader[*models.Job, []*models.Job]
	Jobs           Loader[models.JobID, *models.Job]
	ContinuedBy    Loader[*models.Job, *models.Job]
	KeyNames       Loader[models.KeyID, string]
	WebhookTries   Loader[*webhooks.Delivery, []*webhooks.Try]
	Estimates      Loader[*models.Job, estimate.JobEstimate]
	JobTimes       Loader[*models.Job, *models.JobTime]
	Costs          Loader[*models.Job, *query.JobCost]
	QueueWaits     Loader[Queue, query.QueueWait]
	Capacities     Loader[Queue, query.QueueCapacity]
	FailingHosts   Loader[Cause, []*models.FailingHost]
	ScalingHistory Loader[ScalingPage, []*capacity.ScalingDecision]
	PriceHistory   Loader[PricesBack, []*capacity.PriceStep]
	// Paid is what the machines of the last hours were paid for, by the name of their pool.
	Paid           Loader[int, map[string]models.Paid]
	Workflows      Loader[models.WorkflowID, *models.Workflow]
	WorkflowNodes  Loader[*models.Workflow, []*models.WorkflowNode]
	WorkflowCounts Loader[*models.Workflow, query.WorkflowCounts]
	Approvals      Loader[*models.Workflow, map[models.JobID]*query.Approval]
	// Submitters are the schedules that submitted workflows.
	Submitters Loader[*models.Workflow, *schedules.WorkflowSchedule]
	SlotUsages Loader[models.AccountID, *schedule.Usage]
}

// New returns the loaders of one response, which read through r.
func New(r *query.Reads, o Options) *Loaders {
	if o.Wait == 0 {
		o.Wait = Wait
	}
	p := o.Principal
	return &Loaders{
		Prompts: newLoader(o, ofJobs(r, p, query.Edges.Prompts)),
		WaitingFor: newLoader(o, ofJobs(r, p, func(e query.Edges, ctx context.Context) (map[models.JobID][]query.WaitingReason, error) {
			return r.Jobs.WaitingFor(ctx, e)
		})),
		Placements:   newLoader(o, ofJobs(r, p, query.Edges.Placements)),
		Attempts:     newLoader(o, ofJobs(r, p, perJob(query.Edges.Attempts, func(a *models.Attempt) models.JobID { return a.JobID }))),
		Events:       newLoader(o, eventPages(r, p)),
		JobArtifacts: newLoader(o, ofJobs(r, p, perJob(query.Edges.Artifacts, func(a *models.Artifact) models.JobID { return a.JobID }))),
		InputFiles:   newLoader(o, ofJobs(r, p, perJob(query.Edges.InputFiles, func(f *models.InputFile) models.JobID { return f.UsedBy }))),
		Artifacts:    newLoader(o, keyed(seenBy(p, r.Jobs.Artifacts), func(a *models.Artifact) models.ArtifactID { return a.ID })),
		Workers:      newLoader(o, keyed(r.Fleet.WorkersByID, func(w *models.Worker) models.WorkerID { return w.ID })),
		Accounts:     newLoader(o, keyed(r.Directory.Accounts, func(a *models.Account) models.AccountID { return a.ID })),
		GPUs:         newLoader(o, grouped(r.Fleet.GPUs, func(g *models.GPUState) models.WorkerID { return g.WorkerID })),
		WorkerCosts:  newLoader(o, keyed(r.Costs.OfWorkers, func(c *costs.WorkerCost) models.WorkerID { return c.WorkerID })),
		GPUHistory:   newLoader(o, keyed(r.Fleet.GPUHistory, func(h *capacity.GPUHistory) models.WorkerID { return h.WorkerID })),
		Pools:        newLoader(o, keyed(r.Fleet.PoolsByID, func(p *query.PoolStatus) models.PoolID { return p.ID })),
		CurrentJobs:  newLoader(o, seenBy(p, r.Fleet.CurrentJobs)),
		Parents:      newLoader(o, ofJobs(r, p, query.Edges.Parents)),
		Jobs:         newLoader(o, keyed(seenBy(p, r.Jobs.ByID), func(j *models.Job) models.JobID { return j.ID })),
		ContinuedBy: newLoader(o, ofJobs(r, p, func(e query.Edges, ctx context.Context) (map[models.JobID]*models.Job, error) {
			found, err := e.Continuations(ctx)
			return lo.KeyBy(found, func(j *models.Job) models.JobID { return j.Continues }), err
		})),
		KeyNames:       newLoader(o, seenBy(p, r.Directory.KeyNames)),
		WebhookTries:   newLoader(o, webhookTries(r, p)),
		Estimates:      newLoader(o, ofJobs(r, p, query.Edges.Estimates)),
		JobTimes:       newLoader(o, ofJobs(r, p, query.Edges.Times)),
		Costs:          newLoader(o, ofJobs(r, p, query.Edges.Costs)),
		QueueWaits:     newLoader(o, queueWaits(r)),
		Capacities:     newLoader(o, capacities(r)),
		FailingHosts:   newLoader(o, failingHosts(r)),
		ScalingHistory: newLoader(o, scalingPages(r)),
		PriceHistory:   newLoader(o, prices(r)),
		Paid:           newLoader(o, paid(r, p)),
		Workflows:      newLoader(o, keyed(seenBy(p, r.Workflows.ByID), func(w *models.Workflow) models.WorkflowID { return w.ID })),
		WorkflowNodes:  newLoader(o, ofWorkflows(r, p, nodesOf)),
		WorkflowCounts: newLoader(o, ofWorkflows(r, p, query.WorkflowEdges.Counts)),
		Approvals:      newLoader(o, ofWorkflows(r, p, query.WorkflowEdges.Approvals)),
		Submitters:     newLoader(o, ofWorkflows(r, p, schedulesOf)),
		SlotUsages:     newLoader(o, o.Schedules.Usages),
	}
}
