package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// jobListSize is how many jobs a page shows.
const jobListSize = 50

// jobList is the view of the jobs' page.
type jobList struct {
	Filter jobQuery
	Facets []facet
	Models []string
	Rows   []jobRow
	Older  string
	Now    time.Time
}

type jobRow struct {
	*models.Job
	Prompt  string
	Account string
}

// facet is one choice of states, with how many jobs are in them.
type facet struct {
	Name  string
	Href  string
	Count string
	On    bool
}

// jobQuery is what a jobs page's address asks for.
type jobQuery struct {
	Status []models.JobStatus
	Model  string
	Tier   models.Tier
	Search string
	After  string
}

// readJobQuery reads an address, or returns INVALID_INPUT if it asks for what
// there is not.
func (c *console) readJobQuery(v url.Values) (jobQuery, error) {
	q := jobQuery{Model: v.Get("model"), Tier: models.Tier(v.Get("tier")), Search: strings.TrimSpace(v.Get("q")), After: v.Get("after")}
	if q.Model != "" {
		if _, err := c.Reader.Catalogue.Model(q.Model); err != nil {
			return q, err
		}
	}
	if q.Tier != "" && !slices.Contains(models.Tiers, q.Tier) {
		return q, &jobs.Error{Code: jobs.CodeInvalidInput, Field: "tier", Message: "There is no such tier."}
	}
	if v.Get("status") == "" {
		return q, nil
	}
	for name := range strings.SplitSeq(v.Get("status"), ",") {
		q.Status = append(q.Status, models.JobStatus(name))
		if !slices.Contains(models.JobStatuses, models.JobStatus(name)) {
			return q, &jobs.Error{Code: jobs.CodeInvalidInput, Field: "status", Message: "There is no such state of a job."}
		}
	}
	return q, nil
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

// path is the address of this query under a page's path.
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

// newest is the address of the list's first page.
func (q jobQuery) newest() string {
	q.After = ""
	return q.path("/jobs")
}

// empty says why no job is shown.
func (v *jobList) empty() string {
	if v.Older != "" {
		return "None of the jobs that were looked at is like that. There are older ones."
	}
	return "No job is like that. Choose other filters, or make a new job."
}

// live is the address of the list's stream. Only the newest page moves.
func (q jobQuery) live() string {
	if q.After != "" {
		return ""
	}
	return q.path("/jobs/live")
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
	query, err := c.readJobQuery(r.URL.Query())
	if err != nil {
		return err
	}
	if models.JobID(query.Search).Valid() {
		http.Redirect(w, r, "/jobs/"+query.Search, http.StatusSeeOther)
		return nil
	}
	v, err := c.readJobList(r.Context(), p, query, map[models.JobID]string{})
	if err != nil {
		return err
	}
	return render(w, r, http.StatusOK, jobListPage(v))
}

func (c *console) jobListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	query, err := c.readJobQuery(r.URL.Query())
	if err != nil {
		return err
	}
	prompts := map[models.JobID]string{}
	return refresh(w, r, func(ctx context.Context) (templ.Component, error) {
		v, err := c.readJobList(ctx, p, query, prompts)
		if err != nil {
			return nil, err
		}
		return jobListTable(v), nil
	})
}

// readJobList reads a page of jobs. It adds to prompts, which never change and
// take work to decrypt.
func (c *console) readJobList(ctx context.Context, p jobs.Principal, q jobQuery, prompts map[models.JobID]string) (*jobList, error) {
	found, err := c.Reader.Jobs(ctx, p, q.filter(), jobs.PageOf{First: jobListSize, After: q.After})
	if err != nil {
		return nil, err
	}
	v := &jobList{Filter: q, Now: time.Now()}
	for _, m := range c.Reader.Catalogue.Models() {
		v.Models = append(v.Models, m.Name)
	}
	if v.Rows, err = c.jobRows(ctx, found.Items, prompts); err != nil {
		return nil, err
	}
	if found.More {
		older := q
		older.After = found.End
		v.Older = older.path("/jobs")
	}
	v.Facets, err = c.facets(ctx, p, q)
	return v, err
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

// shownPrompt is a prompt for people to read, or says that it cannot be read.
func shownPrompt(ctx context.Context, p jobs.Prompt) string {
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
			Name: group.name, Href: narrowed.path("/jobs"), Count: ui.Count(n, jobs.CountLimit),
			On: slices.Equal(group.statuses, q.Status),
		})
	}
	return facets, nil
}
