package workers

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/console/shell"
)

// quarantineForm is the view of the page that asks for how long and why.
type quarantineForm struct {
	workerRow
	Minutes, Reason string
	// Errors are messages by the name of the field.
	Errors map[string]string
}

// quarantineAsk asks for how long a host gets no jobs, and why.
func (c *controller) quarantineAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.quarantinePage(w, r, p, http.StatusOK, &quarantineForm{Minutes: "30"})
}

func (c *controller) quarantinePage(w http.ResponseWriter, r *http.Request, p jobs.Principal, status int, v *quarantineForm) error {
	var err error
	if v.workerRow, err = c.workerRow(r.Context(), p, workerID(r)); err != nil {
		return err
	}
	return shell.Render(w, r, status, quarantineFormPage(v))
}

func (c *controller) quarantineStart(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v := &quarantineForm{Minutes: strings.TrimSpace(r.PostForm.Get("minutes")), Reason: strings.TrimSpace(r.PostForm.Get("reason"))}
	minutes, err := strconv.Atoi(v.Minutes)
	if err != nil {
		v.Errors = map[string]string{"minutes": "This must be a whole number."}
		return c.quarantinePage(w, r, p, http.StatusUnprocessableEntity, v)
	}
	worker, err := c.Fleet.QuarantineWorker(r.Context(), p, workerID(r), minutes, v.Reason)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput {
		v.Errors = map[string]string{refused.Field: refused.Message}
		return c.quarantinePage(w, r, p, http.StatusUnprocessableEntity, v)
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, "/workers", fmt.Sprintf("Quarantined the host of %s for %d min: it gets no jobs. A job that runs there continues.",
		workerRow{Worker: worker}.named(), minutes))
}

func (c *controller) quarantineEnd(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	worker, err := c.Fleet.ReleaseQuarantine(r.Context(), p, workerID(r))
	if err != nil {
		return err
	}
	return c.Done(w, r, "/workers", "Released the host of "+workerRow{Worker: worker}.named()+": it gets jobs again.")
}
