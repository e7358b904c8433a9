package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// jobAction is the view of a page that asks before something happens to a job.
type jobAction struct {
	*models.Job
	Prompt string
	// Values are the entered values, or the current ones.
	Values url.Values
	// Errors are messages by the name of the field.
	Errors map[string]string
	// DeadLetter is the open dead letter of the job's run, or nil.
	DeadLetter *models.DeadLetter
	// Fields are the parameters that a redrive can change.
	Fields []field
}

// jobActionPage asks for one action.
type jobActionPage func(*jobAction) templ.Component

func jobID(r *http.Request) models.JobID { return models.JobID(r.PathValue("id")) }

// path returns the address to which the page sends its form.
func (v *jobAction) path(verb string) templ.SafeURL {
	return address.Job(v.ID) + templ.SafeURL("/"+verb)
}

// name says which job it is.
func (v *jobAction) name() string {
	return (&jobView{Job: v.Job, Prompt: v.Prompt}).heading()
}

// askJob returns a page that asks for an action. If the action is not possible now, for example
// since the job has ended, the page leads back to the job.
func (c *controller) askJob(possible func(*jobAction) bool, page jobActionPage) shell.Page {
	return func(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
		v, err := c.readJobAction(r.Context(), p, jobID(r))
		if err != nil {
			return err
		}
		if !possible(v) {
			return c.Done(w, r, string(address.Job(v.ID)), "Nothing was done: this is not possible for a job that is "+ui.Words(string(v.Status))+
				".")
		}
		return shell.Render(w, r, http.StatusOK, page(v))
	}
}

func (c *controller) readJobAction(ctx context.Context, p jobs.Principal, id models.JobID) (*jobAction, error) {
	job, err := c.Reads.Jobs.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	edges, err := c.Reads.Jobs.Of(p, job)
	if err != nil {
		return nil, err
	}
	prompts, err := edges.Prompts(ctx)
	if err != nil {
		return nil, err
	}
	v := &jobAction{Job: job, Prompt: shownPrompt(ctx, prompts[id]), Errors: map[string]string{}}
	v.Values = url.Values{
		"tier": {string(job.Tier)}, "priority": {strconv.Itoa(job.Priority)}, "run": {strconv.Itoa(job.Run)}, "prompt": {prompts[id].Text},
	}
	if job.Status != models.JobFailed {
		return v, nil
	}
	if v.DeadLetter, err = c.Reads.DeadLetters.OpenOf(ctx, p, job); err != nil {
		return nil, err
	}
	v.Fields, err = c.paramFields(job, v.Values)
	return v, err
}

// paramFields returns the fields for a job's parameters, and sets their current values. It
// returns none if the model no longer exists.
func (c *controller) paramFields(job *models.Job, values url.Values) ([]field, error) {
	model, err := c.Reads.Models.Catalogue.Current().Model(job.Model)
	if err != nil {
		return nil, nil
	}
	fields, err := schemaFields(model.Schema)
	if err != nil {
		return nil, err
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(job.Params, &params); err != nil {
		return nil, err
	}
	for _, f := range fields {
		values.Set(f.Name, f.text(params[strings.TrimPrefix(f.Name, "params.")]))
	}
	return fields, nil
}

// acted leads from an action back to its job, or shows the page again with what is wrong.
func (c *controller) acted(w http.ResponseWriter, r *http.Request, p jobs.Principal, err error, page jobActionPage, message string) error {
	var refused *apierror.Error
	switch {
	case errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput:
		return c.askAgain(w, r, p, map[string]string{refused.Field: refused.Message}, page)
	case err != nil:
		return err
	}
	return c.Done(w, r, string(address.Job(jobID(r))), message)
}

// askAgain shows the page again with the entered values. Errors of fields that it does not have
// are shown above them.
func (c *controller) askAgain(w http.ResponseWriter, r *http.Request, p jobs.Principal, problems map[string]string,
	page jobActionPage) error {
	v, err := c.readJobAction(r.Context(), p, jobID(r))
	if err != nil {
		return err
	}
	v.Values, v.Errors = r.PostForm, problems
	for name, message := range problems {
		if !r.PostForm.Has(name) {
			v.Errors[""] = message
		}
	}
	return shell.Render(w, r, http.StatusUnprocessableEntity, page(v))
}

func (c *controller) jobCancel(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	_, err := c.Canceller.CancelFor(r.Context(), p, jobID(r), r.PostForm.Get("reason"))
	return c.acted(w, r, p, err, jobCancelPage, "The cancel was requested.")
}

func (c *controller) jobDelete(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	_, err := c.Deleter.Delete(r.Context(), p, jobID(r))
	return c.acted(w, r, p, err, jobDeletePage, "The job was deleted.")
}

// jobRetry opens the next run. A form that is sent twice opens one.
func (c *controller) jobRetry(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	job, err := c.Reads.Jobs.Get(r.Context(), p, jobID(r))
	if err != nil {
		return err
	}
	if run, err := strconv.Atoi(r.PostForm.Get("run")); err != nil || run == job.Run {
		_, err = c.Retrier.Retry(r.Context(), p, job.ID, r.PostForm.Get("from") == "scratch")
		return c.acted(w, r, p, err, jobRetryPage, "A new run was started.")
	}
	return c.acted(w, r, p, nil, jobRetryPage, "The new run was started already.")
}

// jobOrder changes the tier and the priority of a job, as far as they differ.
func (c *controller) jobOrder(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	job, err := c.Reads.Jobs.Get(r.Context(), p, jobID(r))
	if err != nil {
		return err
	}
	priority, err := strconv.Atoi(strings.TrimSpace(r.PostForm.Get("priority")))
	if err != nil {
		return c.askAgain(w, r, p, map[string]string{"priority": "This must be a whole number from -100 to 100."}, jobOrderPage)
	}
	if tier := models.Tier(r.PostForm.Get("tier")); tier != job.Tier {
		_, err = c.Operator.SetJobTier(r.Context(), p, job.ID, tier)
	}
	if err == nil && priority != job.Priority {
		_, err = c.Operator.SetJobPriority(r.Context(), p, job.ID, priority)
	}
	return c.acted(w, r, p, err, jobOrderPage, fmt.Sprintf("The job has the tier %s and the priority %d.", ui.Words(r.PostForm.Get("tier")),
		priority))
}

// jobRedrive sends the dead letter of a job back as its next run, with what was edited.
func (c *controller) jobRedrive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	letter := models.DeadLetterID(r.PostForm.Get("letter"))
	v, err := c.readJobAction(r.Context(), p, jobID(r))
	if err != nil {
		return err
	}
	var edit operate.Edit
	if v.DeadLetter != nil && v.DeadLetter.ID == letter {
		var problems map[string]string
		if edit, problems = v.edit(r.PostForm); len(problems) > 0 {
			return c.askAgain(w, r, p, problems, jobRedrivePage)
		}
	}
	_, err = c.Letters.Redrive(r.Context(), p, letter, edit)
	return c.acted(w, r, p, err, jobRedrivePage, "The job was redriven.")
}

// edit returns what a form changes of a job, and messages about invalid fields.
func (v *jobAction) edit(form url.Values) (edit operate.Edit, problems map[string]string) {
	if prompt := strings.ReplaceAll(form.Get("prompt"), "\r\n", "\n"); form.Has("prompt") && prompt != v.Values.Get("prompt") {
		edit.Prompt = &prompt
	}
	params, problems := readParams(v.Fields, form)
	var was, is any
	if json.Unmarshal(v.Params, &was) != nil || json.Unmarshal(params, &is) != nil || len(v.Fields) == 0 {
		return edit, problems
	}
	if !reflect.DeepEqual(was, is) {
		edit.Params = params
	}
	return edit, problems
}

// The actions that are possible in a job's state.
func (v *jobAction) cancellable() bool {
	return !v.Status.Terminal() && v.CancelRequestedAt.IsZero()
}
func (v *jobAction) open() bool       { return !v.Status.Terminal() }
func (v *jobAction) deletable() bool  { return v.Status.Terminal() && v.DeletedAt.IsZero() }
func (v *jobAction) redrivable() bool { return v.DeadLetter != nil }
func (v *jobAction) retryable() bool {
	return (v.Status == models.JobFailed || v.Status == models.JobCancelled) && v.DeletedAt.IsZero()
}
