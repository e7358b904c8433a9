package query

import (
	"context"
	"time"

	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/reelay/reelay/models/postgres"
)

// Overview is the state of all of Reelay. Nil is unknown.
type Overview struct {
	At time.Time
	// Queued and Running are as exact as in Queues; Scheduled and Blocked are counted up to
	// CountLimit+1. DeadLetters are the open ones that operators must act on.
	Queued, Running, Scheduled, Blocked, DeadLetters int
	// Promoted is how many of Queued were promoted into a higher lane.
	Promoted                                                  int
	WorkersIdle, WorkersBusy, WorkersBooting, WorkersDraining int
	// WorkersWithoutPool is how many of these belong to no pool, WorkersMax how many the pools may
	// have that are not paused.
	WorkersWithoutPool, WorkersMax int
	// SubmittedPerMinute and CompletedPerMinute are of the last ten minutes. The others, down to
	// WastedUSDPerHour, are of the last hour. FailureRate is from 0 to 1, without failures that
	// customers caused.
	SubmittedPerMinute, CompletedPerMinute, FailureRate                *float64
	WaitSecondsP50, WaitSecondsP95, RenderSecondsP50, RenderSecondsP95 *float64
	// PreemptionsPerHour leaves out OperatorPreemptionsPerHour.
	PreemptionsPerHour, OperatorPreemptionsPerHour, RecoverySecondsP95 *float64
	CostUSDPerHour, WastedUSDPerHour                                   *float64
	// GPUUtilization is how busy the GPUs say they are now, from 0 to 1.
	GPUUtilization *float64
	// Drain is the time to empty all queues if no job is added.
	Drain estimate.Drain

	// Recent are the figures of the last ten minutes, Hour those of the last hour.
	Recent, Hour *history.Figures
	Queues       []backlog.QueueCount
	Pauses       []models.Pause
	Halts        []models.Halt
	// Workers are counted now, by pool, region and GPU type.
	Workers []*models.HistoryPool
	// Failing are the workers on which several jobs crashed in the last hour.
	Failing []capacity.FailingWorker
}

// OverviewPrice is what an overview costs of the caller's share of reads.
const OverviewPrice = 4 * CountPrice

// Paid returns what the machines of the last hour were paid for, by class.
func (o *Overview) Paid() []models.PaidTime { return o.Hour.Paid().Times() }

// CostUSDPerVideo returns what the machines of the last hour cost for each completed job, or nil.
func (o *Overview) CostUSDPerVideo() *float64 { return o.Hour.CostPerVideo() }

// EstimatedDrainSeconds is Drain without what it leaves out.
func (o *Overview) EstimatedDrainSeconds() *float64 { return o.Drain.Seconds }

// DrainLeavesOut is what Drain leaves out.
func (o *Overview) DrainLeavesOut() []estimate.LeftOut { return o.Drain.LeftOut }

const (
	recentSpan = 10 * time.Minute
	hourSpan   = time.Hour
	// mostFailing bounds Overview.Failing.
	mostFailing = 5
)

// Overview reads the state of all of Reelay. It is for operators.
func (r *History) Overview(ctx context.Context, p jobs.Principal) (*Overview, error) {
	if err := p.RequireViewer(); err != nil {
		return nil, err
	}
	o, err := r.overview(ctx)
	return o, apierror.Wrap(err, "read the overview")
}

func (r *History) overview(ctx context.Context) (*Overview, error) {
	now, err := postgres.Now(ctx, r.db)
	if err != nil {
		return nil, err
	}
	o := &Overview{At: now}
	gauges, workers, err := models.SampleHistory(ctx, r.db, CountLimit+1)
	if err != nil {
		return nil, err
	}
	o.Scheduled, o.Blocked, o.DeadLetters, o.Workers = int(gauges.Scheduled), int(gauges.Blocked), int(gauges.DeadLetters), workers
	if o.Queues, err = backlog.CountQueues(ctx, r.db); err != nil {
		return nil, err
	}
	drains, err := r.queues.Drains(ctx)
	if err != nil {
		return nil, err
	}
	o.Drain = drains.All()
	if o.Halts, err = models.ListHalts(ctx, r.db); err != nil {
		return nil, err
	}
	if o.Pauses, err = models.ListPauses(ctx, r.db); err != nil {
		return nil, err
	}
	if o.Failing, err = capacity.ListFailingWorkers(ctx, r.db, hourSpan, mostFailing); err != nil {
		return nil, err
	}
	// The hour is read in two parts, so that the last minutes are read once.
	recent := now.UTC().Truncate(time.Minute).Add(-recentSpan)
	if o.Recent, err = r.Timeline.Window(ctx, recent, now); err != nil {
		return nil, err
	}
	before, err := r.Timeline.Window(ctx, recent.Add(recentSpan-hourSpan), recent)
	if err != nil {
		return nil, err
	}
	o.Hour = before.And(o.Recent)
	pools, err := capacity.ListPools(ctx, r.db, capacity.NoPoolLock)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		if pool.PausedAt.IsZero() {
			o.WorkersMax += pool.MaxWorkers
		}
	}
	o.figures()
	return o, nil
}

// figures derives the figures from what was read.
func (o *Overview) figures() {
	for _, q := range o.Queues {
		o.Queued += q.Depth
		o.Running += q.Running
		o.Promoted += q.Promoted
	}
	var gpus, busy float64
	for _, w := range o.Workers {
		o.WorkersIdle += int(w.Idle)
		o.WorkersBusy += int(w.Busy)
		o.WorkersBooting += int(w.Booting)
		o.WorkersDraining += int(w.Draining)
		if w.Pool == "" {
			o.WorkersWithoutPool += int(w.Idle + w.Busy + w.Booting + w.Draining)
		}
		gpus, busy = gpus+w.GPUs, busy+w.GPUsBusy
	}
	if gpus > 0 {
		o.GPUUtilization = new(busy / gpus)
	}
	o.SubmittedPerMinute, o.CompletedPerMinute = o.Recent.SubmittedPerMinute(), o.Recent.CompletedPerMinute()
	h := o.Hour
	o.FailureRate = h.FailureRate()
	o.WaitSecondsP50, o.WaitSecondsP95 = h.Wait(0.5), h.Wait(0.95)
	o.RenderSecondsP50, o.RenderSecondsP95 = h.Render(0.5), h.Render(0.95)
	o.PreemptionsPerHour, o.OperatorPreemptionsPerHour, o.RecoverySecondsP95 = h.PreemptionsPerHour(), h.OperatorPreemptionsPerHour(),
		h.Recovery(0.95)
	o.CostUSDPerHour, o.WastedUSDPerHour = h.CostPerHour(), h.WastedUSDPerHour()
}
