package console

import (
	"time"

	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// cancellable tells whether there is still something to cancel.
func (v *jobView) cancellable() bool {
	return !v.Status.Terminal() && v.CancelRequestedAt.IsZero()
}

// cancelling tells how far the cancel of a job is that a worker holds.
func (v *jobView) cancelling() string {
	if v.CancelDeliveredAt.IsZero() {
		return "Cancelling: the worker is being told."
	}
	return "Cancelling: the worker was told to stop."
}

// sinceCancel is how long after a cancel one of its steps came, if it did.
func (v *jobView) sinceCancel(step time.Time) string {
	switch {
	case !step.IsZero():
		return "after " + ui.Between(v.CancelRequestedAt, step)
	case v.Status.Terminal():
		return "not before it ended"
	}
	return "not yet"
}

// stage is what the job does, or what became of it.
func (v *jobView) stage() string {
	switch v.Status {
	case models.JobFailed:
		return "when it failed"
	case models.JobCancelled:
		return "when it was cancelled"
	}
	return ui.Words(string(v.Phase))
}

// note is what the worker says of its work while it goes on. Of a cancel the
// page tells more.
func (v *jobView) note() string {
	if v.Status.Terminal() || !v.CancelRequestedAt.IsZero() {
		return ""
	}
	return v.Message
}

// waits tells what holds a waiting job back, most telling first.
func (v *jobView) waits() []string {
	if v.Status.Waiting() && len(v.Waiting) == 0 {
		return []string{query.NothingHolds}
	}
	var reasons []string
	for _, reason := range v.Waiting {
		reasons = append(reasons, reason.Message)
	}
	return reasons
}
