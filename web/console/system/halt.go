package system

import (
	"errors"
	"net/http"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// haltForm is the view of the page that asks what to halt, and why.
type haltForm struct {
	What   []models.HaltTarget // the ticked ones
	Reason string
	// Errors are messages by the name of the field.
	Errors map[string]string
}

func (c *controller) haltAsk(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return shell.Render(w, r, http.StatusOK, haltPage(&haltForm{}))
}

func (c *controller) halt(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v := &haltForm{What: haltTargets(r), Reason: r.PostForm.Get("reason")}
	_, err := c.Operator.Halt(r.Context(), p, v.What, v.Reason)
	var refused *apierror.Error
	if errors.As(err, &refused) && (refused.Field == "reason" || refused.Field == "what") {
		v.Errors = map[string]string{refused.Field: refused.Message}
		return shell.Render(w, r, http.StatusUnprocessableEntity, haltPage(v))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, "/system", "Halted "+shell.HaltNames(v.What)+".")
}

func (c *controller) resume(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	what := haltTargets(r)
	if _, err := c.Operator.Resume(r.Context(), p, what); err != nil {
		return err
	}
	return c.Done(w, r, "/system", "Resumed "+shell.HaltNames(what)+".")
}

// haltTargets returns what a form, which was read, names. A name that does not exist is refused later.
func haltTargets(r *http.Request) []models.HaltTarget {
	_ = r.ParseForm() // checkForm has read it
	return lo.Map(lo.Uniq(r.PostForm["what"]), func(name string, _ int) models.HaltTarget { return models.HaltTarget(name) })
}

// haltedFor formats for how long something has been halted. 0 means that it is not.
func haltedFor(seconds float64) string {
	if seconds == 0 {
		return "not halted"
	}
	return lag(&seconds)
}
