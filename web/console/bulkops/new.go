package bulkops

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// Action describes an action on many jobs.
type Action struct {
	Action joblist.BulkAction
	Verb   string
	effect string
	// refused says why a job is left out.
	refused string
	Danger  bool
}

// Actions are all actions on many jobs, in the order of their buttons.
var Actions = []Action{
	{joblist.BulkCancel, "Cancel", "Waiting jobs are cancelled at once, running ones when their worker has stopped.", "have ended already",
		false},
	{joblist.BulkRetry, "Retry", "Each job begins a new run, from its newest checkpoint.", "have not failed and were not cancelled", false},
	{joblist.BulkRedrive, "Redrive", "Each job with an open dead letter begins a new run in the critical lane.", "have not failed", false},
	{joblist.BulkSetTier, "Set tier", "Waiting jobs move to the tier's lane at once, running ones when they are queued again.",
		"have ended already", false},
	{joblist.BulkSetPriority, "Set priority",
		"It is the order among the jobs of one account. Queued jobs move at once, others when they are queued again.", "have ended already",
		false},
	{joblist.BulkDelete, "Delete", "Their prompts, videos and other files are deleted for good. The rows stay, without their contents.",
		"have not ended", true},
}

// Keys returns the key of the button for the selected jobs, if it has one.
func (a Action) Keys() templ.Attributes {
	switch a.Action {
	case joblist.BulkCancel:
		return templ.Attributes{"data-key": "c", "title": "Key: c"}
	case joblist.BulkRetry:
		return templ.Attributes{"data-key": "r", "title": "Key: r"}
	}
	return nil
}

// bulkNew is the view of the page that confirms a bulk operation.
type bulkNew struct {
	Action joblist.BulkAction
	// IDs are the selected jobs. Without any, the operation is about all jobs that match Filter.
	IDs    []models.JobID
	Filter address.Jobs
	// Key makes a repeated POST harmless.
	Key  string
	Tier models.Tier
	// Priority, PerMinute and Canary are as typed. "" is the default of the last two.
	Priority, PerMinute, Canary string
	// Dry is the dry run, nil if there was none because of Problem.
	Dry     *joblist.BulkOperation
	Problem *apierror.Error
}

// index returns the place of the action in Actions, or -1.
func (v *bulkNew) index() int {
	return slices.IndexFunc(Actions, func(a Action) bool { return a.Action == v.Action })
}

// about is what the operation does, such as "Cancel 12 jobs".
func (v *bulkNew) about() string {
	verb := Actions[v.index()].Verb
	if v.Dry == nil {
		return verb + " jobs"
	}
	if v.Action == joblist.BulkSetTier {
		return "Set the tier of " + countJobs(v.Dry.Matched)
	}
	if v.Action == joblist.BulkSetPriority {
		return "Set the priority of " + countJobs(v.Dry.Matched)
	}
	return verb + " " + countJobs(v.Dry.Matched)
}

func countJobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return ui.Count(n, 0) + " jobs"
}

// back returns the address of the list from which the person came.
func (v *bulkNew) back() string { return v.Filter.First("/jobs") }

// skipped says how many jobs are left out and why.
func (v *bulkNew) skipped() []string {
	var all []string
	refused := Actions[v.index()].refused
	if v.Dry == nil {
		return nil
	}
	for _, s := range v.Dry.Skips {
		n := ui.Count(s.Jobs, 0)
		if s.More {
			n += "+"
		}
		all = append(all, n+" "+ui.Words(string(s.Status))+": they "+refused)
	}
	return all
}

func (c *controller) bulkConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := readBulk(r.URL.Query())
	if err != nil {
		return err
	}
	v.Key = uuid.NewString()
	if v.Filter.Within != "" { // so that jobs of later submits are not in it
		now := time.Now()
		v.Filter.From, v.Filter.To, v.Filter.Within = now.Add(-v.Filter.Filter().Within), now, ""
	}
	return c.showBulk(w, r, p, v)
}

// showBulk shows the page with a dry run.
func (c *controller) showBulk(w http.ResponseWriter, r *http.Request, p jobs.Principal, v *bulkNew) error {
	status := http.StatusOK
	request := v.request()
	request.DryRun, request.PerMinute, request.Canary = true, nil, nil
	if request.Action == joblist.BulkSetTier && request.Tier == "" {
		request.Tier = models.TierFree // the count is the same for every tier
	}
	if request.Action == joblist.BulkSetPriority {
		request.Priority = new(0)
	}
	dry, err := c.Bulk.Start(r.Context(), p, request)
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput {
		v.Problem, dry = refused, nil
	} else if err != nil {
		return err
	}
	if v.Problem != nil {
		status = http.StatusUnprocessableEntity
	}
	v.Dry = dry
	return shell.Render(w, r, status, bulkNewPage(v))
}

func (c *controller) bulkStart(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v, err := readBulk(r.PostForm)
	if err != nil {
		return err
	}
	request := v.request()
	var op *joblist.BulkOperation
	if request.PerMinute, err = optionalInt("perMinute", v.PerMinute); err == nil {
		request.Canary, err = optionalInt("canary", v.Canary)
	}
	if err == nil {
		request.Priority, err = optionalInt("priority", v.Priority)
	}
	if err == nil {
		op, err = c.Bulk.Start(r.Context(), p, request)
	}
	var refused *apierror.Error
	if errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput {
		v.Problem = refused
		return c.showBulk(w, r, p, v)
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, "/bulk/"+string(op.ID), "Started: "+countJobs(op.Matched)+".")
}

func optionalInt(field, text string) (*int, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, apierror.Invalid(field, "%q is not a whole number.", ui.Clip(text, 20))
	}
	return &n, nil
}

// request is the operation that the form asks for.
func (v *bulkNew) request() bulk.Request {
	r := bulk.Request{Action: v.Action, Tier: v.Tier, IDs: v.IDs, Eligible: true, Key: v.Key}
	if len(v.IDs) == 0 {
		r.Filter = v.Filter.Filter()
	}
	return r
}

var errNothingSelected = apierror.Invalid("id", "Select jobs in the list first, or choose all that match.")

// readBulk reads what the list's form and the page's own form send.
func readBulk(form url.Values) (*bulkNew, error) {
	filter, err := address.ReadJobs(form)
	if err != nil {
		return nil, err
	}
	filter.After = ""
	v := &bulkNew{
		Action: joblist.BulkAction(form.Get("action")), Filter: filter, Key: form.Get("key"), Tier: models.Tier(form.Get("newTier")),
		Priority: strings.TrimSpace(form.Get("newPriority")), PerMinute: strings.TrimSpace(form.Get("perMinute")),
		Canary: strings.TrimSpace(form.Get("canary")),
	}
	if v.index() < 0 {
		return nil, apierror.Invalid("action", "Choose what to do with the jobs.")
	}
	if form.Get("all") != "" {
		return v, nil
	}
	for _, id := range form["id"] {
		v.IDs = append(v.IDs, models.JobID("job_"+strings.TrimPrefix(id, "job_")))
	}
	if len(v.IDs) == 0 {
		return nil, errNothingSelected
	}
	return v, nil
}
