package change

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
)

// Route is a model to which a job can be moved, with the job's params for it.
type Route struct {
	To     *catalogue.Model
	Params json.RawMessage
	from   *catalogue.Model // nil if it is no longer known
}

// Routes returns the models that may render a job next, in the order of its fallback: those that this run has not
// tried, that the account sees, and that take the params. There are none while work may go on elsewhere for the
// job, which may be paid, and for a job that is to be cancelled.
func Routes(known *catalogue.Snapshot, job *models.Job) (found []Route) {
	left := job.FallbackLeft()
	if len(left) == 0 || job.HasHandle() || job.AtMostOnce || job.SubmitUnknown() || !job.CancelRequestedAt.IsZero() {
		return nil
	}
	from, seen := known.At(job.Model, job.ModelVersion), known.For(job.AccountID)
	given := from.Given(job.Params, job.Fallback.Defaulted)
	for _, name := range left {
		model := seen.Find(name, 0)
		if model == nil || model.Type != job.Type {
			continue
		}
		if params, err := model.Params(given); err == nil {
			found = append(found, Route{model, params, from})
		}
	}
	return found
}

// Reroute makes another model render the job, from the beginning and with all its attempts. The caller queues and saves
// the job, which no worker has.
func (c *Change) Reroute(ctx context.Context, to Route, reason string) error {
	job := c.Job
	job.Routes = append(slices.Clip(job.Routes), models.JobRoute{Run: job.Run, From: job.Model, To: to.To.Name, Reason: reason, At: c.Now})
	c.Note(models.EventModelChanged, jobs.Payload{"from": job.Model, "to": to.To.Name, "reason": reason})
	if to.from != nil && job.TimeoutSeconds == to.from.Timeout(job.Params) { // else its owner chose it
		job.TimeoutSeconds = to.To.Timeout(to.Params)
	}
	job.Model, job.ModelVersion, job.Params = to.To.Name, to.To.Version, to.Params
	job.EstimatedGPUSeconds, job.TimeClass = to.To.EstimateGPUSeconds(to.Params), to.To.TimeClass(to.Params)
	job.ReuseDigest, job.ReuseRefs = nil, nil // it is another request now
	job.Failures, job.Crashes, job.GPURank, job.LatestCheckpointID = 0, 0, 0, ""
	job.AvoidWorkerID, job.AvoidUntil = "", time.Time{}
	job.Progress = models.Progress{Phase: models.PhaseWaiting, UpdatedAt: c.Now,
		Message: fmt.Sprintf("%s renders it instead of %s: %s", to.To.Name, c.Before.Model, reason)}
	if err := models.RejectCheckpoints(ctx, c.Tx, []models.JobID{job.ID}); err != nil {
		return fmt.Errorf("reject the checkpoints of another model: %w", err)
	}
	// Nobody works on it, and another pool cannot have a job with a slot.
	if err := capacity.FreeSlots(ctx, c.Tx, []models.JobID{job.ID}, nil); err != nil {
		return fmt.Errorf("give back the slot of job %s at a provider: %w", job.ID, err)
	}
	if err := models.SaveRoute(ctx, c.Tx, job); err != nil {
		return fmt.Errorf("save the model of job %s: %w", job.ID, err)
	}
	return nil
}
