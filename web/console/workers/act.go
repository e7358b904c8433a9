package workers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

const (
	// drainWithin is how long a drained worker may take to finish its job.
	drainWithin = 5 * time.Minute
	// preemptNotice is long enough for a checkpoint, and as short as any cloud's.
	preemptNotice = 10 * time.Second
)

func (c *controller) workerDrain(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.actOnWorker(w, r, p, func(ctx context.Context, row workerRow) (string, error) {
		_, err := c.Fleet.DrainWorker(ctx, p, row.ID, drainWithin)
		if row.Job == nil {
			return "Draining " + row.named() + ": it takes no more jobs, and ends.", err
		}
		return fmt.Sprintf("Draining %s: it takes no more jobs, and ends after its job, at the latest in %.0f min.", row.named(),
			drainWithin.Minutes()), err
	})
}

func (c *controller) workerPreempt(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.actOnWorker(w, r, p, func(ctx context.Context, row workerRow) (string, error) {
		_, err := c.Fleet.PreemptWorker(ctx, p, row.ID, preemptNotice)
		return "Preempting " + row.named() + row.jobGoes(": its job resumes on another worker."), err
	})
}

func (c *controller) workerTerminate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.actOnWorker(w, r, p, func(ctx context.Context, row workerRow) (string, error) {
		_, err := c.Fleet.TerminateWorker(ctx, p, row.ID)
		return "Terminating " + row.named() + row.jobGoes(": its job is queued again, and resumes from its newest checkpoint."), err
	})
}

// actOnWorker does something with a worker, and returns to the list with what was said of it.
func (c *controller) actOnWorker(w http.ResponseWriter, r *http.Request, p jobs.Principal, act func(context.Context,
	workerRow) (string, error)) error {
	row, err := c.workerRow(r.Context(), p, workerID(r))
	if err != nil {
		return err
	}
	told, err := act(r.Context(), row)
	if err != nil {
		return err
	}
	return c.Done(w, r, "/workers", told)
}

// named is the name of a worker in a sentence.
func (r workerRow) named() string { return ui.Clip(ui.Upright(r.name()), 80) }

// jobGoes is what happens to the worker's job, or the end of a sentence if it has none.
func (r workerRow) jobGoes(where string) string {
	if r.Job == nil {
		return "."
	}
	return where
}

// workerConfirm asks for confirmation before a machine is stopped without notice.
func (c *controller) workerConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	row, err := c.workerRow(r.Context(), p, workerID(r))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, workerConfirmPage(row))
}

func workerID(r *http.Request) models.WorkerID { return models.WorkerID(r.PathValue("id")) }
