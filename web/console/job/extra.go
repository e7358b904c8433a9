package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/samber/lo"
)

// extraGroup is a part of the form for a new job that is closed at first.
type extraGroup struct {
	Name   string
	Fields []field
}

// jobExtras are the fields of the form that few jobs need.
var jobExtras = []extraGroup{
	{"When it starts", []field{
		{Name: "runAt", Label: "Not before (UTC)", Type: "datetime-local", Description: "Empty: at once."},
		{Name: "expiresAt", Label: "Start by (UTC)", Type: "datetime-local", Description: "If no worker has started it by then, it fails."},
		{Name: "dependsOn", Label: "Depends on", Type: typeList, Description: "The ids of jobs that must be completed first."},
	}},
	{"Order and retries", []field{
		{Name: "priority", Label: "Priority", Type: "integer", Min: "-100", Max: "100",
			Description: "Order among the account's own jobs. Higher starts first."},
		{Name: "maxAttempts", Label: "Maximum attempts", Type: "integer", Min: "1", Max: "20", Description: "Empty: the tier's number."},
		{Name: "timeoutSeconds", Label: "Timeout in seconds", Type: "integer", Min: "1", Max: "18000",
			Description: "How long one attempt may run. Empty: the model's."},
		{Name: "backoff", Label: "Delay between attempts", Type: "string", Choices: []choice{{Text: "EXPONENTIAL"}, {Text: "FIXED"}},
			Description: "Not set: by the failure's class."},
		{Name: "retry.initialDelaySeconds", Label: "First delay in seconds", Type: "number", Min: "0", Description: "Before the second attempt."},
		{Name: "retry.maxDelaySeconds", Label: "Maximum delay in seconds", Type: "number", Min: "0"},
	}},
	{"Where it runs", []field{
		{Name: "region", Label: "Region", Type: "string", Description: "A preference, unless it is required."},
		{Name: "requireRegion", Label: "Only in this region", Type: "boolean", Choices: []choice{{Text: "true"}},
			Description: "It then waits until a worker in the region is free."},
		{Name: "fallback", Label: "Fallback", Type: typeList, Description: "Up to 5 models that may render it instead. Empty: the model's own list."},
	}},
	{"Notes and notifications", []field{
		{Name: "userId", Label: "User id", Type: "string", Description: "Your own name for the end user."},
		{Name: "idempotencyKey", Label: "Idempotency key", Type: "string",
			Description: "The same key with the same request returns the same job. Empty: a new one for this form."},
		{Name: "callbackUrl", Label: "Callback URL", Type: "string",
			Description: "Called when a run of this job ends, in addition to the account's endpoints."},
		{Name: "metadata", Label: "Metadata", Type: typeJSON, Description: `Your own keys as JSON, such as {"campaign": "autumn"}.`},
	}},
}

// extraFields lists the fields of all groups.
func extraFields() (all []field) {
	for _, g := range jobExtras {
		all = append(all, g.Fields...)
	}
	return all
}

// open reports whether the group has something to show: a value, or an error.
func (g extraGroup) open(f *jobForm) bool {
	for _, field := range g.Fields {
		if f.Values.Get(field.Name) != "" || f.Errors[field.Name] != "" {
			return true
		}
	}
	return false
}

// extraReader reads the fields of jobExtras, and collects what is wrong with them.
type extraReader struct {
	values   url.Values
	problems map[string]string
}

func (r extraReader) text(name string) string { return strings.TrimSpace(r.values.Get(name)) }

func (r extraReader) number(name string) *int {
	text := r.text(name)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		r.problems[name] = "This must be a whole number."
	}
	return &n
}

func (r extraReader) seconds(name string) *float64 {
	text := r.text(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.problems[name] = "This must be a number."
	}
	return &n
}

// retry returns the delays between attempts, or nil if none of their fields is filled in.
func (r extraReader) retry() *models.RetryPolicy {
	policy := models.RetryPolicy{
		Backoff:             models.Backoff(r.text("backoff")),
		InitialDelaySeconds: r.seconds("retry.initialDelaySeconds"), MaxDelaySeconds: r.seconds("retry.maxDelaySeconds"),
	}
	if policy == (models.RetryPolicy{}) {
		return nil
	}
	policy.Backoff = cmp.Or(policy.Backoff, models.BackoffExponential)
	return &policy
}

func (r extraReader) time(name string) *time.Time {
	text := r.text(name)
	if text == "" {
		return nil
	}
	for _, layout := range []string{pageTime, "2006-01-02T15:04:05", time.DateTime} {
		if at, err := time.Parse(layout, text); err == nil {
			return &at
		}
	}
	r.problems[name] = "This must be a date and a time, such as 2027-01-31T12:00."
	return nil
}

// readExtras reads the rarely used fields of the form, and adds the errors to problems.
func readExtras(in *submit.Submission, values url.Values, problems map[string]string) {
	r := extraReader{values, problems}
	in.RunAt, in.ExpiresAt = r.time("runAt"), r.time("expiresAt")
	for _, id := range strings.Fields(strings.ReplaceAll(values.Get("dependsOn"), ",", " ")) {
		in.DependsOn = append(in.DependsOn, models.JobID(id))
	}
	if n := r.number("priority"); n != nil {
		in.Priority = *n
	}
	in.MaxAttempts, in.TimeoutSeconds = r.number("maxAttempts"), r.number("timeoutSeconds")
	in.Retry = r.retry()
	in.Region, in.RequireRegion = r.text("region"), r.text("requireRegion") == "true"
	in.UserID, in.CallbackURL = values.Get("userId"), r.text("callbackUrl")
	if text := r.text("metadata"); text != "" {
		if in.Metadata = json.RawMessage(text); !json.Valid(in.Metadata) {
			problems["metadata"] = `This must be JSON, such as {"campaign": "autumn"}.`
		}
	}
	if names := strings.Fields(strings.ReplaceAll(values.Get("fallback"), ",", " ")); len(names) > 0 {
		in.Fallback = names
	}
	if key := values.Get("idempotencyKey"); key != "" {
		in.IdempotencyKey = &key
	}
}

// jobEstimate shows what the job of the form would have to expect. Nothing is submitted.
func (c *controller) jobEstimate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	form, err := c.readForm(r, p, r.PostForm.Get("model"))
	if err != nil {
		return err
	}
	form.Values = r.PostForm
	c.estimate(r, p, form)
	return shell.Render(w, r, http.StatusOK, jobEstimated(form))
}

// estimate forecasts the job of the form. A form with errors has no forecast.
func (c *controller) estimate(r *http.Request, p jobs.Principal, form *jobForm) {
	in, ok := form.submission()
	if !ok {
		return
	}
	guess, err := c.Submitter.Estimate(r.Context(), p, in)
	if err != nil {
		form.Unknown = "No estimate: " + shell.Describe(r.Context(), err).Message
		return
	}
	form.Estimate = guess
}

// position says how many jobs are ahead.
func position(e *estimate.Estimate) string {
	if e.Position <= 1 {
		return "next"
	}
	return fmt.Sprintf("%d ahead", e.Position-1)
}

// cloneOf fills the form with the values of a job.
func (c *controller) cloneOf(r *http.Request, p jobs.Principal, id models.JobID) (*jobForm, error) {
	job, err := c.Reads.Jobs.Get(r.Context(), p, id)
	if err != nil {
		return nil, err
	}
	form, err := c.readForm(r, p, job.Model)
	if err != nil {
		return nil, err
	}
	edges, err := c.Reads.Jobs.Of(p, job)
	if err != nil {
		return nil, err
	}
	prompts, err := edges.Prompts(r.Context())
	if err != nil {
		return nil, err
	}
	v := form.Values
	if _, err := c.paramFields(job, v); err != nil {
		return nil, err
	}
	v.Set("prompt", prompts[id].Text)
	parents, err := edges.Parents(r.Context())
	if err != nil {
		return nil, err
	}
	var on []string
	for _, parent := range parents[id] {
		on = append(on, string(parent.ID))
	}
	v.Set("dependsOn", strings.Join(on, "\n"))
	setRare(v, job, time.Now())
	return form, nil
}

// setRare fills in the fields of a job that few jobs use. Times that have passed stay empty.
func setRare(v url.Values, job *models.Job, now time.Time) {
	set := func(name, value string, given bool) {
		if given {
			v.Set(name, value)
		}
	}
	at := func(name string, t time.Time) { set(name, t.UTC().Format(pageTime), t.After(now)) }
	set("tier", string(job.Tier), true)
	set("priority", strconv.Itoa(job.Priority), job.Priority != 0)
	set("userId", job.UserID, true)
	set("metadata", string(job.Metadata), true)
	set("callbackUrl", job.CallbackURL, true)
	set("region", job.Region, true)
	set("requireRegion", "true", job.RequireRegion)
	set("atMostOnce", "true", job.AtMostOnce)
	set("reuse", "true", job.Reuse)
	set("maxAttempts", strconv.Itoa(job.MaxAttempts), !job.AtMostOnce)
	set("timeoutSeconds", strconv.Itoa(job.TimeoutSeconds), true)
	set("fallback", strings.Join(lo.Without(job.FallbackModels(), job.Model), "\n"), true)
	set("takes", "1", job.DraftSteps > 0)
	set("draftSteps", strconv.Itoa(job.DraftSteps), job.DraftSteps > 0)
	at("runAt", job.RunAt)
	at("expiresAt", job.ExpiresAt)
	at("finishBy", job.FinishBy)
	number := func(name string, n *float64) {
		if n != nil {
			v.Set(name, strconv.FormatFloat(*n, 'g', -1, 64))
		}
	}
	number("maxPricePerHour", job.MaxPricePerHour)
	if job.MaxPreemptions != nil {
		v.Set("maxPreemptions", strconv.Itoa(*job.MaxPreemptions))
	}
	if policy := job.RetryPolicy; policy != nil {
		v.Set("backoff", string(policy.Backoff))
		number("retry.initialDelaySeconds", policy.InitialDelaySeconds)
		number("retry.maxDelaySeconds", policy.MaxDelaySeconds)
	}
}
