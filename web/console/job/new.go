package job

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// jobForm is the view of the form for a new job.
type jobForm struct {
	Model  *catalogue.Model
	Models []query.ModelStatus
	Fields []field
	// Values are the entered values, or the defaults.
	Values url.Values
	// Errors are messages by the name of the field; "" is the whole form.
	Errors map[string]string
	// Estimate is what the job would have to expect, or nil. Unknown says why there is none.
	Estimate *estimate.Estimate
	Unknown  string
	// Sent means that the values were sent by the browser, which then need not restore any.
	Sent bool
	// Key is the idempotency key: a form that is sent twice makes one job.
	Key string
}

func (c *controller) jobNew(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	var form *jobForm
	var err error
	if from := r.URL.Query().Get("from"); from != "" {
		form, err = c.cloneOf(r, p, models.JobID(from))
	} else {
		form, err = c.readForm(r, p, r.URL.Query().Get("model"))
	}
	if err != nil {
		return err
	}
	form.setDefaults()
	return shell.Render(w, r, http.StatusOK, jobNewPage(form))
}

// setDefaults fills the fields that were not sent.
func (f *jobForm) setDefaults() {
	for _, field := range f.Fields {
		if !f.Values.Has(field.Name) {
			f.Values.Set(field.Name, field.Default)
		}
	}
}

// focus returns the field with the focus: the first invalid one, or the prompt.
func (f *jobForm) focus() string {
	names := lo.Map(f.Fields, func(field field, _ int) string { return field.Name })
	for _, extra := range extraFields() {
		names = append(names, extra.Name)
	}
	for _, name := range append(names, "takes", "draftSteps", "maxPreemptions", "finishBy", "maxPricePerHour") {
		if f.Errors["prompt"] == "" && f.Errors[name] != "" {
			return name
		}
	}
	return "prompt"
}

// readForm returns an empty form for a model; "" is the first one.
func (c *controller) readForm(r *http.Request, p jobs.Principal, model string) (*jobForm, error) {
	form := &jobForm{Values: url.Values{}, Errors: map[string]string{}, Key: uuid.NewString()}
	known := c.Reads.Models.Catalogue.Current().For(p.Scope())
	if model == "" && len(known.Models()) > 0 {
		model = known.Models()[0].Name
	}
	var err error
	if form.Model, err = known.Model(model); err != nil {
		return nil, err
	}
	if form.Fields, err = schemaFields(form.Model.Schema); err != nil {
		return nil, err
	}
	if form.Models, err = c.Reads.Models.List(r.Context(), known); err != nil {
		return nil, err
	}
	// What nobody can do now comes last.
	slices.SortStableFunc(form.Models, func(a, b query.ModelStatus) int {
		return cmp.Compare(lo.Ternary(a.Available, 0, 1), lo.Ternary(b.Available, 0, 1))
	})
	return form, nil
}

// modelGroup are models with the same type of job.
type modelGroup struct {
	Type   string
	Models []query.ModelStatus
}

// groups returns the models by the type of their jobs, those that a worker offers first.
func (f *jobForm) groups() (all []modelGroup) {
	for _, m := range f.Models {
		i := slices.IndexFunc(all, func(g modelGroup) bool { return g.Type == m.Type })
		if i < 0 {
			i, all = len(all), append(all, modelGroup{Type: m.Type})
		}
		all[i].Models = append(all[i].Models, m)
	}
	return all
}

// parked are the names of the sent parameters that the chosen model does not have. They stay in
// the form, for the case that the model is changed back.
func (f *jobForm) parked() (names []string) {
	for name := range f.Values {
		known := slices.ContainsFunc(f.Fields, func(field field) bool { return field.Name == name })
		if strings.HasPrefix(name, "params.") && !known && len(names) < maxParked {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// maxParked is more parameters than a few models have.
const maxParked = 200

func (c *controller) jobSubmit(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	form, err := c.readForm(r, p, r.PostForm.Get("model"))
	if err != nil {
		return err
	}
	form.Values, form.Sent = r.PostForm, true
	if err := c.storeFiles(r, p, form); err != nil {
		return err
	}
	changed := r.PostForm.Get("change") != "" // another model was chosen
	if changed || r.PostForm.Get("estimate") != "" {
		form.setDefaults()
		if form.Key = cmp.Or(r.PostForm.Get("key"), form.Key); !changed && len(form.Errors) == 0 {
			c.estimate(r, p, form)
		}
		return shell.Render(w, r, http.StatusOK, jobNewPage(form))
	}
	to := ""
	if len(form.Errors) == 0 {
		to, err = c.submit(r, p, form)
	}
	var refused *apierror.Error
	if errors.As(err, &refused) {
		form.refuse(refused)
	} else if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return shell.Render(w, r, http.StatusUnprocessableEntity, jobNewPage(form))
	}
	said := "Submitted the job."
	if form.Values.Get("takes") != "" {
		said = "Submitted the drafts."
	}
	return c.Done(w, r, to, said)
}

// submit submits the job of the form, or its drafts, unless its parameters are invalid. It
// returns the address of their page.
func (c *controller) submit(r *http.Request, p jobs.Principal, form *jobForm) (to string, err error) {
	in, ok := form.submission()
	if !ok {
		return "", nil
	}
	if form.Values.Get("takes") != "" {
		return c.submitTakes(r, p, form, in)
	}
	job, _, err := c.Submitter.Submit(r.Context(), p, in)
	if err != nil {
		return "", err
	}
	return "/jobs/" + string(job.ID), nil
}

// submission returns what the form asks for, and false if something in it is invalid.
func (f *jobForm) submission() (in submit.Submission, ok bool) {
	params, problems := readParams(f.Fields, f.Values)
	f.Errors = problems
	in = submit.Submission{
		// Forms end lines as HTTP does.
		Model: f.Model.Name, Prompt: strings.ReplaceAll(f.Values.Get("prompt"), "\r\n", "\n"), Params: params,
		Tier: models.Tier(f.Values.Get("tier")), AtMostOnce: f.Values.Get("atMostOnce") == "true", Reuse: f.Values.Get("reuse") == "true",
	}
	if key := f.Values.Get("key"); key != "" {
		f.Key, in.IdempotencyKey = key, &key
	}
	readLimits(&in, f.Values, f.Errors)
	readExtras(&in, f.Values, f.Errors)
	return in, len(f.Errors) == 0
}

// submitTakes submits the drafts of the form.
func (c *controller) submitTakes(r *http.Request, p jobs.Principal, form *jobForm, in submit.Submission) (to string, err error) {
	count, err := strconv.Atoi(form.Values.Get("takes"))
	if err != nil {
		form.Errors["takes"] = "This must be a whole number."
		return "", nil
	}
	steps, err := strconv.Atoi(form.Values.Get("draftSteps"))
	if err != nil {
		form.Errors["draftSteps"] = "Drafts need a number of steps."
		return "", nil
	}
	in.Draft = &submit.Draft{Steps: steps}
	made, err := c.Submitter.Takes(r.Context(), p, in, count, nil)
	if err != nil {
		return "", err
	}
	// The account may have no room for all of them.
	accepted, ok := lo.Find(made, func(draft submit.Submitted) bool { return draft.Job != nil })
	if !ok {
		return "", made[0].Refused
	}
	return "/takes/" + string(accepted.Job.TakesID), nil
}

// draftFields are the form's names of what a draft was refused for.
var draftFields = map[string]string{"count": "takes", "draft.steps": "draftSteps", "draft": "draftSteps"}

// refuse shows an error beside its field.
func (f *jobForm) refuse(err *apierror.Error) {
	if err.Code == apierror.CodeIdempotencyConflict {
		f.Key = uuid.NewString()
		f.Errors[""] = "This form has already submitted a job with other values. Submit it again to create another job."
		return
	}
	if name, ok := draftFields[err.Field]; ok {
		f.Errors[name] = err.Message
		return
	}
	if err.Field == "retry" || err.Field == "retry.backoff" {
		f.Errors["backoff"] = err.Message
		return
	}
	for _, known := range slices.Concat(f.Fields, jobLimits, extraFields()) {
		if known.Name == err.Field {
			f.Errors[err.Field] = err.Message
			return
		}
	}
	if err.Code == apierror.CodeNotFound && err.Field == "" && f.Values.Get("dependsOn") != "" {
		f.Errors["dependsOn"] = err.Message
		return
	}
	if err.Field == "prompt" {
		f.Errors["prompt"] = err.Message
		return
	}
	f.Errors[""] = err.Message
}
