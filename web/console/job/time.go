package job

import (
	"strings"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// lasting is a duration: from Since until now or, if Since is zero, Seconds, which is nil
// if unknown.
type lasting struct {
	Since   time.Time
	Seconds *float64
}

// since adds a current period to the seconds before it.
func since(begin time.Time, seconds float64) lasting {
	return lasting{Since: begin.Add(-time.Duration(seconds * float64(time.Second)))}
}

// waited is how long the job's run has been queued; nil is unknown.
func waited(w *query.JobWait) lasting {
	switch {
	case w == nil:
		return lasting{}
	case w.Since.IsZero():
		return lasting{Seconds: &w.Seconds}
	}
	return lasting{Since: w.Since}
}

// ran is how long workers have held the job's run, all its attempts together.
func ran(job *models.Job) lasting {
	if job.Status.Live() && job.LeasedSeconds != nil {
		return since(job.LeasedAt, *job.LeasedSeconds)
	}
	return lasting{Seconds: job.LeasedSeconds}
}

// took is waited and ran together: neither the time before the job was due, nor
// while it was blocked.
func took(job *models.Job) lasting {
	if job.QueuedSeconds == nil || job.LeasedSeconds == nil {
		return lasting{}
	}
	total := *job.QueuedSeconds + *job.LeasedSeconds
	switch {
	case job.Status == models.JobQueued:
		return since(job.QueuedAt, total)
	case job.Status.Live():
		return since(job.LeasedAt, total)
	}
	return lasting{Seconds: &total}
}

// timeText says where the time of a run went, or "" if that is unknown. The parts add up to the total.
func timeText(t *models.JobTime) string {
	if t == nil {
		return ""
	}
	var parts []string
	for _, part := range []struct {
		name    string
		seconds float64
	}{
		{"not due or blocked", t.DelayedSeconds}, {"queued", t.QueuedSeconds}, {"queue paused", t.PausedSeconds},
		{"pauses before retries", t.BackoffSeconds}, {"held by workers", t.HeldSeconds},
	} {
		if part.seconds > 0 {
			parts = append(parts, part.name+" "+ui.Seconds(&part.seconds))
		}
	}
	return ui.Seconds(&t.TotalSeconds) + ": " + strings.Join(parts, ", ")
}
