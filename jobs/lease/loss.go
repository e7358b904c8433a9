package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Loss says why the server took an attempt from its worker.
type Loss struct {
	Reason string
	// Blameless means that the job is not suspected: an operator ended the worker, or
	// its provider took the machine away.
	Blameless bool
}

const (
	// maxCrashes is how many crashes, or losses without notice, in one run with no checkpoint
	// in between make a job POISON.
	maxCrashes = 3
	// massLoss is the share of the fleet whose loss within massWithin cannot be the fault of
	// one job.
	massLoss   = 0.2
	massWithin = time.Minute
	// massSilence is how long a worker that is not LOST yet must have been silent to count as
	// gone. It is longer than a lease call waits.
	massSilence = 45 * time.Second
)

// Why Reelay itself and operators make workers leave.
const (
	LeavesFewer      = "the pool needs fewer workers"
	LeavesPaused     = "its pool is paused"
	LeavesDrained    = "an operator asked for it"
	LeavesPreempted  = "an operator preempted its machine"
	LeavesTerminated = "an operator ended its worker"
)

// deliberate are these reasons. An attempt that ended for one says nothing about the capacity.
var deliberate = []string{LeavesFewer, LeavesPaused, LeavesDrained, LeavesPreempted, LeavesTerminated}

// Deliberate returns the reasons for which Reelay itself and operators make workers leave. An
// attempt that ended for one was not preempted.
func Deliberate() []string { return slices.Clone(deliberate) }

// endUnfenced ends a live attempt without its worker's token (reaped, terminated, registered
// again). It requeues the job, or cancels it if that was requested. A job that keeps taking
// down its workers becomes POISON.
func endUnfenced(ctx context.Context, l *held, lost Loss) error {
	l.end(models.AttemptLost, models.FailWorkerLost, lost.Reason)
	if !l.job.CancelRequestedAt.IsZero() {
		l.attempt.Status, l.attempt.FailureClass = models.AttemptCancelled, ""
		return l.change.Cancelled()
	}
	l.change.Note(models.EventLost, jobs.Payload{"reason": lost.Reason})
	blamed, err := l.blamed(ctx, lost)
	if err != nil {
		return err
	}
	if blamed && l.crashed() {
		return l.poison(lost.Reason)
	}
	l.preempted()
	return l.requeue("its worker was lost; requeued")
}

// blamed reports whether the job itself may have caused a loss.
func (l *held) blamed(ctx context.Context, lost Loss) (bool, error) {
	if lost.Blameless {
		return false, nil
	}
	o, err := getOutage(ctx, l.change.Tx)
	if err != nil || o.Open || o.EndedAt.After(l.attempt.LastHeartbeatAt) {
		return false, err
	}
	if silent, err := wentSilentWithAPI(ctx, l.change.Tx, l.attempt.LastHeartbeatAt); err != nil || silent {
		return false, err
	}
	f, err := models.CountFleetLoss(ctx, l.change.Tx, l.job.ID, massWithin, massSilence)
	if err != nil {
		return false, fmt.Errorf("count the losses of the fleet: %w", err)
	}
	return float64(f.Gone) <= massLoss*float64(f.All), nil
}

// crashed counts a crash, and reports whether the job has reached the limit.
func (l *held) crashed() bool {
	l.job.Crashes++
	return l.job.Crashes >= maxCrashes
}

// poison fails a job that keeps taking down its workers.
func (l *held) poison(last string) error {
	return l.change.Failed(models.FailPoison, text.Clip(fmt.Sprintf(
		"Crashed %d times in a row without progress. Last: %s", maxCrashes, last), maxReasonBytes))
}

// EndHeld ends a worker's attempt. It returns nil if the attempt has already ended.
func EndHeld(ctx context.Context, tx bun.Tx, attempt *models.Attempt, lost Loss) (*change.Change, error) {
	l, err := lockHeld(ctx, tx, attempt)
	if errors.Is(err, apierror.ErrLeaseLost) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := endUnfenced(ctx, l, lost); err != nil {
		return nil, err
	}
	return l.change, l.save(ctx)
}
