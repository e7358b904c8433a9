package console

import (
	"errors"
	"net/http"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// haltForm is the view of the page that asks what to halt, and why.
type haltForm struct {
	What   []models.HaltTarget // the ticked ones
	Reason string
	// Errors are messages by the name of the field.
	Errors map[string]string
}

// haltedWords name a target in a sentence, and say what its halt means.
var haltedWords = map[models.HaltTarget][2]string{
	models.HaltSchedules: {"Schedules", "no slot of a schedule fires"},
	models.HaltLeases:    {"Leases", "no worker gets a job"},
}

func (c *console) haltAsk(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	return render(w, r, http.StatusOK, haltPage(&haltForm{}))
}

func (c *console) halt(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v := &haltForm{What: haltTargets(r), Reason: r.PostForm.Get("reason")}
	_, err := c.Operator.Halt(r.Context(), p, v.What, v.Reason)
	var refused *apierror.Error
	if errors.As(err, &refused) && (refused.Field == "reason" || refused.Field == "what") {
		v.Errors = map[string]string{refused.Field: refused.Message}
		return render(w, r, http.StatusUnprocessableEntity, haltPage(v))
	}
	if err != nil {
		return err
	}
	return c.done(w, r, "/system", "Halted "+haltNames(v.What)+".")
}

func (c *console) resume(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	what := haltTargets(r)
	if _, err := c.Operator.Resume(r.Context(), p, what); err != nil {
		return err
	}
	return c.done(w, r, "/system", "Resumed "+haltNames(what)+".")
}

// haltTargets returns what a form, which was read, names. A name that does not exist is refused later.
func haltTargets(r *http.Request) []models.HaltTarget {
	_ = r.ParseForm() // checkForm has read it
	return lo.Map(lo.Uniq(r.PostForm["what"]), func(name string, _ int) models.HaltTarget { return models.HaltTarget(name) })
}

func haltNames(what []models.HaltTarget) string {
	return strings.ToLower(strings.Join(lo.Map(what, func(t models.HaltTarget, _ int) string { return haltedWords[t][0] }), " and "))
}

// haltedFor formats for how long something has been halted. 0 means that it is not.
func haltedFor(seconds float64) string {
	if seconds == 0 {
		return "not halted"
	}
	return lag(&seconds)
}
