package job

import (
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// cancelling describes the progress of a cancel while a worker holds the job.
func (v *jobView) cancelling() string {
	if v.CancelDeliveredAt.IsZero() {
		return "Cancelling: notifying the worker."
	}
	return "Cancelling: the worker was notified."
}

// sinceCancel returns how long after the cancel a step followed.
func (v *jobView) sinceCancel(step time.Time) string {
	switch {
	case !step.IsZero():
		return "after " + ui.Between(v.CancelRequestedAt, step)
	case v.Status.Terminal():
		return "not before it ended"
	}
	return "not yet"
}

// stage returns the phase of the job, or its outcome.
func (v *jobView) stage() string {
	switch v.Status {
	case models.JobFailed:
		return "when it failed"
	case models.JobCancelled:
		return "when it was cancelled"
	}
	return ui.Words(string(v.Phase))
}

// note returns the worker's message about its work. During a cancel, the page shows that
// instead.
func (v *jobView) note() string {
	if v.Status.Terminal() || !v.CancelRequestedAt.IsZero() {
		return ""
	}
	return v.Message
}

// waits lists what holds a waiting job back, the most important reason first.
func (v *jobView) waits() []query.WaitingReason {
	if v.Status.Waiting() && len(v.Waiting) == 0 {
		return []query.WaitingReason{{Message: query.NothingHolds}}
	}
	return v.Waiting
}

// placeNote says what a place is to the job, or why it is none now.
func placeNote(p *query.Placement) string {
	switch {
	case p.Here:
		return "runs here"
	case p.Preferred:
		return "preferred"
	}
	return p.Obstacle
}
