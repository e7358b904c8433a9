package console

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// jobListSize is the number of jobs on a page.
const jobListSize = 50

// jobList is the view of the page with jobs.
type jobList struct {
	Filter jobQuery
	// Problem is what is wrong with the filter. There are no rows then.
	Problem *apierror.Error
	Facets  []facet
	// None is true if there are no jobs at all.
	None   bool
	Pauses []models.Pause
	Models []string
	Rows   []jobRow
	Older  string
	// Origin is the address of this Reelay, as the browser has it.
	Origin string
	Now    time.Time
}

type jobRow struct {
	*models.Job
	Prompt  string
	Account string
}

// facet is a group of states to choose, with the number of jobs in them.
type facet struct {
	Name  string
	Href  string
	Count string
	On    bool
}

// jobQuery is the query in the address of a page with jobs.
type jobQuery struct {
	Status []models.JobStatus
	Model  string
	Tier   models.Tier
	Search string
	After  string
}

// readJobQuery reads an address. For unknown values it returns INVALID_INPUT and the rest
// of the query.
func readJobQuery(known *catalogue.Snapshot, v url.Values) (jobQuery, error) {
	q := jobQuery{Search: strings.TrimSpace(v.Get("q")), After: v.Get("after")}
	var err error
	if model := v.Get("model"); model != "" {
		if _, err = known.Model(model); err == nil {
			q.Model = model
		}
	}
	if tier := models.Tier(strings.ToUpper(v.Get("tier"))); slices.Contains(models.Tiers, tier) {
		q.Tier = tier
	} else if tier != "" {
		err = badFilter("tier", v.Get("tier"), models.Tiers)
	}
	for name := range strings.SplitSeq(v.Get("status"), ",") {
		if status := models.JobStatus(strings.ToUpper(name)); slices.Contains(models.JobStatuses, status) {
			q.Status = append(q.Status, status)
		} else if v.Get("status") != "" {
			err = badFilter("status", name, models.JobStatuses)
		}
	}
	return q, err
}

func badFilter[T ~string](field, value string, known []T) error {
	var names []string
	for _, name := range known {
		names = append(names, strings.ToLower(string(name)))
	}
	return apierror.Invalid(field, "There is no %s %q. Choose %s.", field, ui.Clip(value, 32), strings.Join(names, ", "))
}

func (q jobQuery) filter() models.JobFilter {
	f := models.JobFilter{Status: q.Status, Model: q.Model, Search: q.Search}
	if q.Tier != "" {
		f.Tier = []models.Tier{q.Tier}
	}
	return f
}

func (q jobQuery) statuses() string {
	var names []string
	for _, status := range q.Status {
		names = append(names, string(status))
	}
	return strings.Join(names, ",")
}

// path returns the address of this query on a page.
func (q jobQuery) path(page string) string {
	v := url.Values{}
	for name, value := range map[string]string{"status": q.statuses(), "model": q.Model, "tier": string(q.Tier), "q": q.Search, "after": q.After} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if len(v) == 0 {
		return page
	}
	return page + "?" + v.Encode()
}

// newest returns the address of the list's first page.
func (q jobQuery) newest() string {
	q.After = ""
	return q.path("/jobs")
}

// live returns the address of the list's stream. Only the newest page has one.
func (q jobQuery) live() string {
	if q.After != "" {
		return ""
	}
	return q.path("/jobs/live")
}

// narrows reports whether the query excludes any jobs.
func (q jobQuery) narrows() bool { return q.path("") != "" }

// empty says that no job matches, and which fields were searched.
func (v *jobList) empty() string {
	text := "No jobs match these filters."
	if v.Older != "" {
		text = "No matches among the newest jobs. Older jobs were not searched yet."
	}
	if search, err := query.ParseSearch(v.Filter.Search); err == nil {
		text = strings.TrimSpace(text + " " + search.Note())
	}
	return text
}

// marked splits the search around the invalid term.
func (v *jobList) marked() (before, term, after string) {
	text := []rune(v.Filter.Search)
	if v.Problem == nil || v.Problem.At < 1 || v.Problem.At > len(text) {
		return string(text), "", ""
	}
	begin := v.Problem.At - 1
	end := len(text)
	if n := slices.IndexFunc(text[begin:], unicode.IsSpace); n > 0 {
		end = begin + n
	}
	return string(text[:begin]), string(text[begin:end]), string(text[end:])
}

// stale reports whether the requested page of the list no longer exists.
func (v *jobList) stale() bool { return v.Problem != nil && v.Problem.Field == "after" }

// invalid reports whether this field is invalid.
func (v *jobList) invalid(field string) bool { return v.Problem != nil && v.Problem.Field == field }

// isStalePage reports whether a list has no such page: its cursor is no longer valid, or
// belongs to another list.
func isStalePage(err error) bool {
	var refused *apierror.Error
	return errors.As(err, &refused) && refused.Code == apierror.CodeInvalidInput && refused.Field == "after"
}

var stateGroups = []struct {
	name     string
	statuses []models.JobStatus
}{
	{"All", nil},
	{"Waiting", []models.JobStatus{models.JobScheduled, models.JobBlocked, models.JobQueued}},
	{"Running", []models.JobStatus{models.JobAssigned, models.JobRunning, models.JobCompleting}},
	{"Completed", []models.JobStatus{models.JobCompleted}},
	{"Failed", []models.JobStatus{models.JobFailed}},
	{"Cancelled", []models.JobStatus{models.JobCancelled}},
}

func (c *console) jobList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	known := c.Reader.Catalogue.Current()
	query, err := readJobQuery(known, r.URL.Query())
	if err == nil && models.JobID(query.Search).Valid() {
		http.Redirect(w, r, "/jobs/"+query.Search, http.StatusSeeOther)
		return nil
	}
	v, status := &jobList{Filter: query, Models: modelNames(known)}, http.StatusOK
	if err == nil {
		err = c.readJobList(r.Context(), p, v, map[models.JobID]string{})
	}
	if errors.As(err, &v.Problem) && v.Problem.Code == apierror.CodeInvalidInput {
		status = http.StatusUnprocessableEntity
	} else if err != nil {
		return err
	}
	v.Origin, v.Now = c.origin(r), time.Now()
	return render(w, r, status, jobListPage(v))
}

// origin is the address of this Reelay, as the browser has it.
func (c *console) origin(r *http.Request) string {
	if c.Secure || r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// promptsKept is how long a live list keeps prompts that it has decrypted. One that is
// purged meanwhile is shown for no longer than this.
const promptsKept = time.Minute

func (c *console) jobListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	query, err := readJobQuery(c.Reader.Catalogue.Current(), r.URL.Query())
	if err != nil {
		return err
	}
	prompts, cleared := map[models.JobID]string{}, time.Now()
	return c.refresh(w, r, p, query.path("/jobs/live"), func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		if time.Since(cleared) > promptsKept {
			clear(prompts)
			cleared = time.Now()
		}
		v := &jobList{Filter: query, Origin: c.origin(r)}
		if err := c.readJobList(ctx, p, v, prompts); err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return jobListTable(v)
		}, nil
	})
}

func modelNames(known *catalogue.Snapshot) []string {
	return lo.Map(known.Models(), func(m *catalogue.Model, _ int) string { return m.Name })
}

// readJobList reads the page of jobs that v.Filter asks for. prompts are those of the
// last read: they never change and are expensive to decrypt.
func (c *console) readJobList(ctx context.Context, p jobs.Principal, v *jobList, prompts map[models.JobID]string) error {
	ctx, read, err := c.Reader.Shares.Admit(ctx, p, query.PagePrice(jobListSize)+query.SearchPrice+len(stateGroups)*query.CountPrice)
	if err != nil {
		return err
	}
	defer read.End()
	found, err := c.Reader.Jobs(ctx, p, v.Filter.filter(), paging.Request{First: jobListSize, After: v.Filter.After})
	if err != nil {
		return err
	}
	if v.Rows, err = c.jobRows(ctx, found.Items, prompts); err != nil {
		return err
	}
	v.None = len(v.Rows) == 0 && !found.More && !v.Filter.narrows()
	if found.More {
		older := v.Filter
		older.After = found.End
		v.Older = older.path("/jobs")
	}
	if v.Pauses, err = c.Reader.Pauses(ctx); err != nil {
		return err
	}
	v.Facets, err = c.facets(ctx, p, v.Filter)
	return err
}

func (c *console) jobRows(ctx context.Context, items []*models.Job, prompts map[models.JobID]string) ([]jobRow, error) {
	var unread []models.JobID
	var owners []models.AccountID
	for _, job := range items {
		if _, ok := prompts[job.ID]; !ok {
			unread = append(unread, job.ID)
		}
		if !slices.Contains(owners, job.AccountID) {
			owners = append(owners, job.AccountID)
		}
	}
	maps.DeleteFunc(prompts, func(id models.JobID, _ string) bool {
		return !slices.ContainsFunc(items, func(job *models.Job) bool { return job.ID == id })
	})
	if err := c.readPrompts(ctx, unread, prompts); err != nil {
		return nil, err
	}
	accounts, err := c.accountNames(ctx, owners)
	if err != nil {
		return nil, err
	}
	var rows []jobRow
	for _, job := range items {
		rows = append(rows, jobRow{job, prompts[job.ID], accounts[job.AccountID]})
	}
	return rows, nil
}

func (c *console) readPrompts(ctx context.Context, ids []models.JobID, prompts map[models.JobID]string) error {
	if len(ids) == 0 {
		return nil
	}
	read, err := c.Reader.Prompts(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		prompts[id] = shownPrompt(ctx, read[id])
	}
	return nil
}

// shownPrompt returns a prompt for display, or a note that it cannot be read.
func shownPrompt(ctx context.Context, p query.Prompt) string {
	if p.Err != nil {
		slog.ErrorContext(ctx, "a prompt cannot be shown", "error", p.Err)
		return "(This prompt cannot be read.)"
	}
	return ui.Upright(p.Text)
}

func (c *console) accountNames(ctx context.Context, ids []models.AccountID) (map[models.AccountID]string, error) {
	names := map[models.AccountID]string{}
	if len(ids) == 0 {
		return names, nil
	}
	accounts, err := c.Reader.Accounts(ctx, ids)
	for _, a := range accounts {
		names[a.ID] = a.Name
	}
	return names, err
}

// facets counts the jobs by group of states, within the other filters.
func (c *console) facets(ctx context.Context, p jobs.Principal, q jobQuery) ([]facet, error) {
	var facets []facet
	for _, group := range stateGroups {
		narrowed := q
		narrowed.Status, narrowed.After = group.statuses, ""
		n, err := c.Reader.CountJobs(ctx, p, narrowed.filter())
		if err != nil {
			return nil, err
		}
		facets = append(facets, facet{
			Name: group.name, Href: narrowed.path("/jobs"), Count: ui.Count(n, query.CountLimit),
			On: slices.Equal(group.statuses, q.Status),
		})
	}
	return facets, nil
}
