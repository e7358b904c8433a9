package console

import (
	"net/http"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
)

const (
	// drainWithin is how long a drained worker may take to finish its job.
	drainWithin = 5 * time.Minute
	// preemptNotice is long enough for a checkpoint, and as short as any cloud's.
	preemptNotice = 10 * time.Second
)

func (c *console) workerDrain(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	_, err := c.Fleet.DrainWorker(r.Context(), p, workerID(r), drainWithin)
	return toWorkers(w, r, err)
}

func (c *console) workerPreempt(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	_, err := c.Fleet.PreemptWorker(r.Context(), p, workerID(r), preemptNotice)
	return toWorkers(w, r, err)
}

func (c *console) workerTerminate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	_, err := c.Fleet.TerminateWorker(r.Context(), p, workerID(r))
	return toWorkers(w, r, err)
}

// workerConfirm asks for confirmation before a machine is stopped without notice.
func (c *console) workerConfirm(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	row, err := c.workerRow(r.Context(), workerID(r))
	if err != nil {
		return err
	}
	return render(w, r, http.StatusOK, workerConfirmPage(row))
}

func workerID(r *http.Request) models.WorkerID { return models.WorkerID(r.PathValue("id")) }

func toWorkers(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil {
		http.Redirect(w, r, "/workers", http.StatusSeeOther)
	}
	return err
}
