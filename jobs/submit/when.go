package submit

import (
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/models"
)

const (
	maxDependencies = 100
	// maxAhead bounds how far in the future a job may start or expire.
	maxAhead = 366 * 24 * time.Hour
	// Bounds of a retry policy's delays, in seconds.
	minRetryDelay = 0.1
	maxRetryDelay = 24 * 60 * 60
)

// soon reports whether the job will be queued at once or within a minute.
func (in *Submission) soon() bool {
	return len(in.DependsOn) == 0 && (in.RunAt == nil || time.Until(*in.RunAt) < time.Minute)
}

// conditions returns what a job waits for, as a part of its digest, or nil if it waits only for a
// worker.
func (in *Submission) conditions() any {
	if in.RunAt == nil && in.ExpiresAt == nil && len(in.DependsOn) == 0 && in.Region == "" && in.Retry == nil {
		return nil
	}
	return []any{utc(in.RunAt), utc(in.ExpiresAt), in.DependsOn, in.Region, in.RequireRegion, in.Retry}
}

func utc(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// validConditions checks what depends neither on the clock nor on other jobs.
func (in *Submission) validConditions() error {
	switch {
	case !text.Valid(in.Region, 0, text.MaxName):
		return apierror.Invalid("region", "region may have %d printable characters.", text.MaxName)
	case in.RequireRegion && in.Region == "":
		return apierror.Invalid("requireRegion", "requireRegion demands a region: name it in region.")
	case len(in.DependsOn) > maxDependencies:
		return apierror.Invalid("dependsOn", "A job may depend on %d others; this names %d.", maxDependencies, len(in.DependsOn))
	}
	in.DependsOn = slices.Compact(slices.Sorted(slices.Values(in.DependsOn)))
	for _, id := range in.DependsOn {
		if !id.Valid() {
			return apierror.NotFound("job to depend on").In("dependsOn")
		}
	}
	return validRetry(in.Retry)
}

func validRetry(p *models.RetryPolicy) error {
	if p == nil {
		return nil
	}
	for name, delay := range map[string]*float64{"initialDelaySeconds": p.InitialDelaySeconds, "maxDelaySeconds": p.MaxDelaySeconds} {
		if delay != nil && !(*delay >= minRetryDelay && *delay <= maxRetryDelay) {
			return apierror.Invalid("retry."+name, "retry.%s must be from %g to %d seconds.", name, minRetryDelay, maxRetryDelay)
		}
	}
	if p.InitialDelaySeconds != nil && p.MaxDelaySeconds != nil && *p.InitialDelaySeconds > *p.MaxDelaySeconds {
		return apierror.Invalid("retry.maxDelaySeconds", "retry.maxDelaySeconds must not be below retry.initialDelaySeconds.")
	}
	return nil
}

// beginJob gives a new job its first state, and the event that records it.
func beginJob(c *change.Change, in Submission, d change.Dependencies) error {
	job := c.Job
	if err := beginTimes(c, in); err != nil {
		return err
	}
	job.Progress = models.Progress{Phase: models.PhaseWaiting}
	job.QueuedSeconds, job.LeasedSeconds = new(0.0), new(0.0)
	switch {
	case d.Count() > 0:
		job.Status, job.BlockedBy = models.JobBlocked, d.Count()
		c.Note(models.EventBlocked, jobs.Payload{"dependsOn": in.DependsOn, "fetch": d.Fetch})
	case !job.RunAt.IsZero():
		job.Status = models.JobScheduled
		c.Note(models.EventScheduled, jobs.Payload{"runAt": utc(&job.RunAt)})
	default:
		job.Status, job.QueuedAt = models.JobQueued, c.Now
		c.Note(models.EventQueued, jobs.Payload{"lane": job.Lane})
	}
	c.From, c.Was = job.Status, *change.ReadyOf(job, 0)
	c.Due = c.Due || c.Asks()
	return nil
}

// beginTimes checks times against PostgreSQL's clock, in microseconds, as PostgreSQL stores them. A
// start time in the past is ignored.
func beginTimes(c *change.Change, in Submission) error {
	if in.RunAt != nil {
		if in.RunAt.After(c.Now.Add(maxAhead)) {
			return apierror.Invalid("runAt", "runAt may be %.0f days ahead at most.", maxAhead.Hours()/24)
		}
		if in.RunAt.After(c.Now) {
			c.Job.RunAt = in.RunAt.Truncate(time.Microsecond)
		}
	}
	if err := beginFinish(c, in.FinishBy); err != nil {
		return err
	}
	if in.ExpiresAt == nil {
		return nil
	}
	expires := in.ExpiresAt.Truncate(time.Microsecond)
	switch {
	case !expires.After(c.Now):
		return apierror.Invalid("expiresAt", "expiresAt is past: the job could never start.")
	case expires.After(c.Now.Add(maxAhead)):
		return apierror.Invalid("expiresAt", "expiresAt may be %.0f days ahead at most.", maxAhead.Hours()/24)
	case !expires.After(c.Job.RunAt):
		return apierror.Invalid("expiresAt", "expiresAt must be after runAt: the job could never start.")
	}
	c.Job.ExpiresAt = expires
	return nil
}

// failWithParent ends a new job, which is already written, because it depends on a failed or
// cancelled one.
func failWithParent(c *change.Change, parent *models.Job) error {
	c.Before, c.From, c.Events = *c.Job, c.Job.Status, nil
	return c.Failed(models.FailDependency, change.DependencyReason(parent))
}
