package job

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
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// jobList is the view of the page with jobs.
type jobList struct {
	Filter address.Jobs
	// Problem is what is wrong with the filter. There are no rows then.
	Problem *apierror.Error
	Facets  []address.Facet
	// None is true if there are no jobs at all.
	None   bool
	Pauses []models.Pause
	Views  []savedView
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
	// Picture is the address of a still picture of the video, or "".
	Picture string
	// WorkerID is the worker of the newest attempt, or "".
	WorkerID models.WorkerID
	// Wait is how long it has been queued; nil if that is unknown.
	Wait *query.JobWait
}

// reason says why the job failed or was cancelled, or returns "".
func (r jobRow) reason() string {
	switch {
	case r.Status == models.JobCancelled && r.CancelReason != "":
		return ui.Upright(r.CancelReason)
	case r.Status.Terminal() && r.Status != models.JobCompleted:
		return ui.Upright(r.FailureReason)
	case r.Status.Waiting() && r.Failures > 0:
		return ui.Upright(r.FailureReason)
	}
	return ""
}

// matching is the number of jobs that match, within the chosen states.
func (v *jobList) matching() string {
	n, first := "", true
	for i, f := range v.Facets {
		if f.On && i == 0 {
			return f.Count
		}
		if f.On && !first {
			return "" // of several states: the dry run counts them
		}
		if f.On {
			n, first = f.Count, false
		}
	}
	return n
}

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

func (c *controller) jobList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	query, err := address.ReadJobs(r.URL.Query())
	if err == nil && models.JobID(query.Search).Valid() {
		http.Redirect(w, r, "/jobs/"+query.Search, http.StatusSeeOther)
		return nil
	}
	if err == nil && litters(r.URL.Query()) {
		http.Redirect(w, r, query.Path("/jobs"), http.StatusSeeOther)
		return nil
	}
	v, status := &jobList{Filter: query}, http.StatusOK
	if err == nil {
		err = c.readJobList(r.Context(), p, v, map[models.JobID]string{})
	}
	if errors.As(err, &v.Problem) && v.Problem.Code == apierror.CodeInvalidInput {
		status = http.StatusUnprocessableEntity
	} else if err != nil {
		return err
	}
	if v.Views, err = c.readViews(r.Context(), p); err != nil {
		return err
	}
	v.Origin, v.Now = c.Origin(r), time.Now()
	return shell.Render(w, r, status, jobListPage(v))
}

// litters reports whether an address has parameters without a value, as forms send them, or
// those of older addresses.
func litters(v url.Values) bool {
	for _, values := range v {
		if len(values) != 1 || values[0] == "" {
			return true
		}
	}
	return v.Has("model") || v.Has("tier")
}

// promptsKept is how long a live list keeps prompts that it has decrypted. One that is
// purged meanwhile is shown for no longer than this.
const promptsKept = time.Minute

func (c *controller) jobListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	query, err := address.ReadJobs(r.URL.Query())
	if err != nil {
		return err
	}
	prompts, cleared := map[models.JobID]string{}, time.Now()
	return c.Refresh(w, r, p, query.Path("/jobs/live"), func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		if time.Since(cleared) > promptsKept {
			clear(prompts)
			cleared = time.Now()
		}
		v := &jobList{Filter: query, Origin: c.Origin(r)}
		if err := c.readJobList(ctx, p, v, prompts); err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return jobListTable(v)
		}, nil
	})
}

// facetPrice is the price of all facets.
const facetPrice = 6 * query.CountPrice

// readJobList reads the page of jobs that v.Filter asks for. prompts are those of the
// last read: they never change and are expensive to decrypt.
func (c *controller) readJobList(ctx context.Context, p jobs.Principal, v *jobList, prompts map[models.JobID]string) error {
	ctx, read, err := c.Reads.Shares.Admit(ctx, p, query.PagePrice(v.Filter.PageSize())+query.SearchPrice+facetPrice)
	if err != nil {
		return err
	}
	defer read.End()
	found, err := c.Reads.Jobs.ListIn(ctx, p, v.Filter.SortedBy(), v.Filter.Filter(),
		paging.Request{First: v.Filter.PageSize(), After: v.Filter.After})
	if err != nil {
		return err
	}
	if v.Rows, err = c.jobRows(ctx, p, found.Items, prompts); err != nil {
		return err
	}
	v.None = len(v.Rows) == 0 && !found.More && !v.Filter.Narrows()
	if found.More {
		older := v.Filter
		older.After = found.End
		v.Older = older.Path("/jobs")
	}
	if v.Pauses, err = c.Reads.Queues.Pauses(ctx); err != nil {
		return err
	}
	v.Facets, err = c.facets(ctx, p, v.Filter)
	return err
}

// jobRows returns the rows of the list, with their prompts.
func (c *controller) jobRows(ctx context.Context, p jobs.Principal, items []*models.Job,
	prompts map[models.JobID]string) ([]jobRow, error) {
	var unread []*models.Job
	for _, job := range items {
		if _, ok := prompts[job.ID]; !ok {
			unread = append(unread, job)
		}
	}
	maps.DeleteFunc(prompts, func(id models.JobID, _ string) bool {
		return !slices.ContainsFunc(items, func(job *models.Job) bool { return job.ID == id })
	})
	if err := c.readPrompts(ctx, p, unread, prompts); err != nil {
		return nil, err
	}
	completed, err := c.Reads.Jobs.Of(p, lo.Filter(items, func(job *models.Job, _ int) bool {
		return job.Status == models.JobCompleted && job.DeletedAt.IsZero()
	})...)
	if err != nil {
		return nil, err
	}
	pictures, err := completed.Pictures(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.plainRows(ctx, p, items)
	for i := range rows {
		rows[i].Prompt, rows[i].Picture = prompts[rows[i].ID], previewOf(rows[i].Job)
		if id := pictures[rows[i].ID]; id != "" {
			rows[i].Picture = "/artifacts/" + string(id)
		}
	}
	return rows, err
}

// plainRows returns the rows of a list without prompts and pictures.
func (c *controller) plainRows(ctx context.Context, p jobs.Principal, items []*models.Job) ([]jobRow, error) {
	var owners []models.AccountID
	for _, job := range items {
		if !slices.Contains(owners, job.AccountID) {
			owners = append(owners, job.AccountID)
		}
	}
	accounts, err := c.AccountNames(ctx, owners)
	if err != nil {
		return nil, err
	}
	started, err := c.Reads.Jobs.Of(p, lo.Filter(items, func(job *models.Job, _ int) bool { return job.AttemptNo > 0 })...)
	if err != nil {
		return nil, err
	}
	workers, err := started.LastWorkers(ctx)
	if err != nil {
		return nil, err
	}
	edges, err := c.Reads.Jobs.Of(p, items...)
	if err != nil {
		return nil, err
	}
	waits, err := edges.Waits(ctx)
	var rows []jobRow
	for _, job := range items {
		row := jobRow{Job: job, Account: accounts[job.AccountID], WorkerID: workers[job.ID]}
		if wait, known := waits[job.ID]; known {
			row.Wait = &wait
		}
		rows = append(rows, row)
	}
	return rows, err
}

func (c *controller) readPrompts(ctx context.Context, p jobs.Principal, of []*models.Job, prompts map[models.JobID]string) error {
	edges, err := c.Reads.Jobs.Of(p, of...)
	if err != nil {
		return err
	}
	read, err := edges.Prompts(ctx)
	if err != nil {
		return err
	}
	for _, job := range of {
		prompts[job.ID] = shownPrompt(ctx, read[job.ID])
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

// facets counts the jobs of each state, within the other filters. The first facet is of all
// states.
func (c *controller) facets(ctx context.Context, p jobs.Principal, q address.Jobs) ([]address.Facet, error) {
	counts, err := c.Reads.Jobs.CountFacets(ctx, p, q.Filter())
	if err != nil {
		return nil, err
	}
	facets, total, more := []address.Facet{{}}, 0, counts.Partly
	for _, status := range models.JobStatuses {
		n, on := counts.Jobs[status], slices.Contains(q.Status, status)
		total, more = total+n, more || n > query.CountLimit
		facets = append(facets, address.Facet{
			Name: ui.Words(string(status)), Href: q.With(func(q *address.Jobs) { q.Status = []models.JobStatus{status} }).Path("/jobs"),
			Count: countPartly(n, counts.Partly), On: on, Quiet: n == 0 && !on && !counts.Partly,
		})
	}
	facets[0] = address.Facet{Name: "All", Href: q.With(func(q *address.Jobs) { q.Status = nil }).Path("/jobs"), On: len(q.Status) == 0,
		Count: ui.Count(total, 0)}
	if more {
		facets[0].Count = countPartly(min(total, query.CountLimit), true)
	}
	return facets, nil
}

// countPartly is the count of a facet. If it is of a part of the jobs only, there may be more: it is
// empty if that part had none.
func countPartly(n int, partly bool) string {
	switch {
	case !partly:
		return ui.Count(n, query.CountLimit)
	case n == 0:
		return ""
	}
	return ui.Count(n, 0) + "+"
}
