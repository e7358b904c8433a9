package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
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
	// Key is the idempotency key: a form that is sent twice makes one job.
	Key string
}

func (c *console) jobNew(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	form, err := c.readForm(r, r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	form.setDefaults()
	return render(w, r, http.StatusOK, jobNewPage(form))
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
	for _, field := range f.Fields {
		if f.Errors["prompt"] == "" && f.Errors[field.Name] != "" {
			return field.Name
		}
	}
	return "prompt"
}

// readForm returns an empty form for a model; "" is the first one.
func (c *console) readForm(r *http.Request, model string) (*jobForm, error) {
	form := &jobForm{Values: url.Values{}, Errors: map[string]string{}, Key: uuid.NewString()}
	known := c.Reader.Catalogue.Current()
	if model == "" {
		model = known.Models()[0].Name
	}
	var err error
	if form.Model, err = known.Model(model); err != nil {
		return nil, err
	}
	if form.Fields, err = schemaFields(form.Model.Schema); err != nil {
		return nil, err
	}
	form.Models, err = c.Reader.Models(r.Context(), known)
	return form, err
}

func (c *console) jobSubmit(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := readForm(r); err != nil {
		return err
	}
	chosen := r.PostForm.Get("choose") // the button of another model
	form, err := c.readForm(r, cmp.Or(chosen, r.PostForm.Get("model")))
	if err != nil {
		return err
	}
	form.Values = r.PostForm
	if chosen != "" {
		form.setDefaults()
		return render(w, r, http.StatusOK, jobNewPage(form))
	}
	job, err := c.submit(r, p, form)
	var refused *apierror.Error
	if errors.As(err, &refused) {
		form.refuse(refused)
	} else if err != nil {
		return err
	}
	if len(form.Errors) > 0 {
		return render(w, r, http.StatusUnprocessableEntity, jobNewPage(form))
	}
	http.Redirect(w, r, "/jobs/"+string(job.ID), http.StatusSeeOther)
	return nil
}

// submit submits the job of the form, unless its parameters are invalid.
func (c *console) submit(r *http.Request, p jobs.Principal, form *jobForm) (*models.Job, error) {
	params, problems := readParams(form.Fields, form.Values)
	if form.Errors = problems; len(problems) > 0 {
		return nil, nil
	}
	in := jobs.Submission{
		// Forms end lines as HTTP does.
		Model: form.Model.Name, Prompt: strings.ReplaceAll(form.Values.Get("prompt"), "\r\n", "\n"), Params: params,
		Tier: models.Tier(form.Values.Get("tier")),
	}
	if key := form.Values.Get("key"); key != "" {
		form.Key, in.IdempotencyKey = key, &key
	}
	job, _, err := c.Submitter.Submit(r.Context(), p, in)
	return job, err
}

// refuse shows an error beside its field.
func (f *jobForm) refuse(err *apierror.Error) {
	if err.Code == apierror.CodeIdempotencyConflict {
		f.Key = uuid.NewString()
		f.Errors[""] = "This form has already submitted a job with other values. Submit it again to create another job."
		return
	}
	for _, known := range f.Fields {
		if known.Name == err.Field {
			f.Errors[err.Field] = err.Message
			return
		}
	}
	if err.Field == "prompt" {
		f.Errors["prompt"] = err.Message
		return
	}
	f.Errors[""] = err.Message
}
