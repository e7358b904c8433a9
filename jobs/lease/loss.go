package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// Loss is the reason for which the server ended an attempt without its worker.
type Loss struct {
	Reason string
	// Blameless means that the job did not cause the loss: an operator ended the worker, or its
	// provider took the machine away.
	Blameless bool
}

const (
	// maxCrashes is how many crashes, or losses without notice, make a job POISON, in one run and
	// without a checkpoint in between.
	maxCrashes = 3
	// massLoss is the share of the fleet whose loss within massWithin cannot be caused by one job.
	massLoss   = 0.2
	massWithin = time.Minute
	// massSilence is how long a worker that is not LOST yet must have been silent to count as lost.
	// It is longer than the wait of a lease call.
	massSilence = 45 * time.Second
)

// endUnfenced ends a live attempt without its worker's token, because it was reaped, or its worker
// was terminated or registered again. It requeues the job, or cancels it if that was requested. A
// job whose workers keep crashing becomes POISON.
func endUnfenced(ctx context.Context, l *lockedLease, lost Loss) error {
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

// blamed reports whether the job may have caused the loss.
func (l *lockedLease) blamed(ctx context.Context, lost Loss) (bool, error) {
	if lost.Blameless || l.job.Phase.AtProvider() {
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
func (l *lockedLease) crashed() bool {
	l.job.Crashes++
	return l.job.Crashes >= maxCrashes
}

// poison fails a job whose workers keep crashing.
func (l *lockedLease) poison(last string) error {
	return l.change.Failed(models.FailPoison, text.Clip(fmt.Sprintf(
		"Crashed %d times in a row without progress. Last: %s", maxCrashes, last), maxReasonBytes))
}

// EndLost ends a worker's attempt. It returns nil if the attempt has already ended.
func EndLost(ctx context.Context, tx bun.Tx, attempt *models.Attempt, lost Loss) (*change.Change, error) {
	l, err := lockLease(ctx, tx, attempt)
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
