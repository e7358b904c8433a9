package deadletters

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// redriveForm is the view of the form that redrives one dead letter, with the changes.
type redriveForm struct {
	*deadLetterView
	Prompt, Params string
	// Purged is true if the prompt was deleted and cannot be shown.
	Purged bool
	Errors map[string]string
}

// causeForm is the view of the forms that redrive or discard all dead letters with one cause.
type causeForm struct {
	*models.DeadLetterGroup
	Canary, PerMinute, Limit, Note string
	Errors                         map[string]string
}

func (c *controller) redriveAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.redriveForm(r, p)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, redrivePage(v))
}

// redriveForm returns the form with the job's own prompt and params.
func (c *controller) redriveForm(r *http.Request, p jobs.Principal) (*redriveForm, error) {
	letter, err := c.readDeadLetter(r, p)
	if err != nil {
		return nil, err
	}
	edges, err := c.Reads.Jobs.Of(p, letter.Job)
	if err != nil {
		return nil, err
	}
	prompts, err := edges.Prompts(r.Context())
	if err != nil {
		return nil, err
	}
	prompt, known := prompts[letter.JobID]
	v := &redriveForm{deadLetterView: letter, Prompt: prompt.Text, Purged: !known || prompt.Err != nil}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, letter.Job.Params, "", "  "); err != nil {
		return nil, err
	}
	v.Params = pretty.String()
	return v, nil
}

func (c *controller) redrive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v, err := c.redriveForm(r, p)
	if err != nil {
		return err
	}
	edit, problem := v.edit(r.PostForm.Get("prompt"), r.PostForm.Get("params"))
	if problem == nil {
		_, problem = c.Letters.Redrive(r.Context(), p, v.ID, edit)
	}
	var refused *apierror.Error
	if errors.As(problem, &refused) && refused.Code == apierror.CodeInvalidInput {
		v.Prompt, v.Params = r.PostForm.Get("prompt"), r.PostForm.Get("params")
		v.Errors = map[string]string{fieldOf(refused.Field): refused.Message}
		return shell.Render(w, r, http.StatusUnprocessableEntity, redrivePage(v))
	}
	if problem != nil {
		return problem
	}
	return c.Done(w, r, "/jobs/"+string(v.JobID), "Redriven: the next run is queued in the lane critical.")
}

// fieldOf returns the field of the form that a refusal is about: params for each parameter.
func fieldOf(field string) string {
	if field == "prompt" {
		return field
	}
	return "params"
}

// edit returns what a person changed. Without a change the run resumes from the newest checkpoint.
func (v *redriveForm) edit(prompt, params string) (operate.Edit, error) {
	var e operate.Edit
	prompt = strings.ReplaceAll(prompt, "\r\n", "\n")
	if prompt != strings.ReplaceAll(v.Prompt, "\r\n", "\n") && !(v.Purged && prompt == "") {
		e.Prompt = &prompt
	}
	var given, own bytes.Buffer
	if err := json.Compact(&given, []byte(params)); err != nil {
		return e, apierror.Invalid("params", "The parameters are not valid JSON: %s. Correct them, or copy the job's own again.", err)
	}
	if err := json.Compact(&own, v.Job.Params); err != nil {
		return e, err
	}
	if !bytes.Equal(given.Bytes(), own.Bytes()) {
		e.Params = given.Bytes()
	}
	return e, nil
}

func (c *controller) discardAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readDeadLetter(r, p)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, discardPage(v, "", nil))
}

func (c *controller) discard(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	note := strings.TrimSpace(r.PostForm.Get("note"))
	letter, err := c.Letters.Discard(r.Context(), p, deadLetterID(r), note)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput {
		v, err := c.readDeadLetter(r, p)
		if err != nil {
			return err
		}
		return shell.Render(w, r, http.StatusUnprocessableEntity, discardPage(v, note, map[string]string{refused.Field: refused.Message}))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, address.Cause("", letter.Fingerprint, false), "Discarded the dead letter of "+ui.Short(string(letter.JobID))+".")
}

// maxRedriven is the most dead letters that one operation redrives.
const maxRedriven = 10_000

// causeForm returns a form for the dead letters with the cause that an address names.
func (c *controller) causeForm(r *http.Request) (*causeForm, error) {
	group, err := c.causeOrNone(r.Context(), causeAsked{fingerprint: causeOf(r).fingerprint})
	if err != nil {
		return nil, err
	}
	return &causeForm{DeadLetterGroup: group, Canary: "1", PerMinute: "60", Limit: strconv.Itoa(min(group.Count, maxRedriven))}, nil
}

func (c *controller) causeRedriveAsk(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	v, err := c.causeForm(r)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, causeRedrivePage(v))
}

func (c *controller) causeDiscardAsk(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	v, err := c.causeForm(r)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, causeDiscardPage(v))
}

func (c *controller) causeRedrive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v, err := c.causeForm(r)
	if err != nil {
		return err
	}
	v.Canary, v.PerMinute, v.Limit = r.PostForm.Get("canary"), r.PostForm.Get("perMinute"), r.PostForm.Get("limit")
	// A second click, or a second operator, finds the operation of the first one.
	running, err := c.redrivesOf(r.Context(), p, v.Fingerprint)
	if err != nil {
		return err
	}
	if len(running) > 0 || v.Count == 0 {
		return c.Done(w, r, address.Cause("", v.Fingerprint, false), "Nothing new was started: a redrive of these jobs runs, or none is open.")
	}
	request, wrong := v.request()
	if wrong == nil {
		var op *joblist.BulkOperation
		if op, err = c.Bulk.Redrive(r.Context(), p, request); err == nil {
			return c.Done(w, r, address.Cause("", v.Fingerprint, false), "Redriving "+text.Count(op.Matched, "job")+".")
		}
		wrong = refusalsOf(err)
	}
	if wrong != nil {
		v.Errors = wrong
		return shell.Render(w, r, http.StatusUnprocessableEntity, causeRedrivePage(v))
	}
	return err
}

// request reads the numbers of the form.
func (v *causeForm) request() (bulk.RedriveRequest, map[string]string) {
	wrong := map[string]string{}
	number := func(name, value string) int {
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			wrong[name] = "This must be a whole number."
		}
		return n
	}
	canary, pace := number("canary", v.Canary), number("perMinute", v.PerMinute)
	request := bulk.RedriveRequest{
		Filter: models.DeadLetterFilter{Fingerprint: v.Fingerprint},
		Limit:  number("limit", v.Limit), PerMinute: &pace, Canary: &canary,
	}
	if len(wrong) > 0 {
		return request, wrong
	}
	return request, nil
}

// refusalsOf returns the message of a refused field, by its name, or nil.
func refusalsOf(err error) map[string]string {
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput && refused.Field != "" {
		return map[string]string{refused.Field: refused.Message}
	}
	return nil
}

func (c *controller) causeDiscard(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	cause, note := causeOf(r).fingerprint, strings.TrimSpace(r.PostForm.Get("note"))
	n, err := c.Letters.DiscardAll(r.Context(), p, cause, note, operate.MaxDiscards)
	if wrong := refusalsOf(err); wrong["note"] != "" {
		v, err := c.causeForm(r)
		if err != nil {
			return err
		}
		v.Note, v.Errors = note, wrong
		return shell.Render(w, r, http.StatusUnprocessableEntity, causeDiscardPage(v))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, address.Cause("", cause, false), "Discarded "+text.Count(n, "dead letter")+".")
}
