package estimate

import (
	"time"

	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// JobEstimate is the forecast of a job that has not ended. Nil and zero fields are unknown.
type JobEstimate struct {
	// WaitSeconds is the time until a worker starts the job, or nil once one has.
	WaitSeconds *float64
	// CompletionAt is the expected completion, to the second.
	CompletionAt time.Time
	// Deadline is what is expected of the job's finishBy, or nil if it has none.
	Deadline *Deadline
}

// Job returns the forecast of a job, and false if nothing is known. saved is what its newest checkpoint
// holds, in percent.
func (o *Forecast) Job(job *models.Job, account *models.Account, ownAhead int, saved float64, now time.Time) (JobEstimate, bool) {
	q := newQuery(job, account)
	// Jobs that started after the forecast was made are still in its queue.
	q.ownAhead = ownAhead + max(0, account.Running-o.held[account.ID])
	in := func(seconds float64) time.Time {
		return now.Add(time.Duration(seconds * float64(time.Second))).Round(time.Second)
	}
	e := JobEstimate{Deadline: o.deadline(job, q, saved, now)}
	if job.Status.Terminal() || job.Status == models.JobBlocked {
		return e, e.Deadline != nil
	}
	if job.Status.Live() {
		if total := o.renderSeconds(o.serving(q), q.load); total > 0 && !job.Progress.UpdatedAt.IsZero() {
			silent := max(now.Sub(job.Progress.UpdatedAt).Seconds(), 0)
			e.CompletionAt = in(Remaining(total, silent, 0, job.Progress.Percent, silent))
		}
		return e, true
	}
	guess, _ := o.estimate(q)
	if guess.WaitSeconds == nil {
		return e, e.Deadline != nil
	}
	wait := Rounded(*guess.WaitSeconds + max(job.RunAt.Sub(now).Seconds(), 0)*float64(lo.Ternary(job.Status == models.JobScheduled, 1, 0)))
	e.WaitSeconds, e.CompletionAt = &wait, in(wait+*guess.RenderSeconds)
	return e, true
}

// Knows reports whether there is anything to estimate from.
func (e *Estimator) Knows() (known bool) {
	e.Look(func(*Forecast) { known = true })
	return known
}
