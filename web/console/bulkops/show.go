package bulkops

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// bulkList is the view of the page with all bulk operations.
type bulkList struct {
	Open  bool
	Rows  []bulkView
	After string
	Older string
	Now   time.Time
}

// path returns the address of a page about the list.
func (v *bulkList) path(page string) string {
	if v.Open {
		return page + "?open=1"
	}
	return page
}

// live returns the address of the list's stream. Only the newest page has one.
func (v *bulkList) live() string {
	if v.After != "" {
		return ""
	}
	return v.path("/bulk/live")
}

// bulkView is one bulk operation.
type bulkView struct {
	*joblist.BulkOperation
	// Account is the name of the account whose key started it.
	Account string
	// Keys has the name of that key, on its own page.
	Keys shell.KeyNames
	Now  time.Time
}

// state names the operation's state, as a badge.
func (v bulkView) state() string {
	switch {
	case v.Paused:
		return "PAUSED"
	case v.FinishedAt.IsZero():
		return "RUNNING"
	case v.Done+v.Failed < v.Matched:
		return "CANCELLED"
	}
	return "COMPLETED"
}

// title is what the operation does, such as "Cancel 12 jobs".
func (v bulkView) title() string {
	dry := &bulkNew{Action: v.Action, Dry: v.BulkOperation}
	if dry.index() < 0 {
		return ui.Words(string(v.Action)) + " " + countJobs(v.Matched)
	}
	if v.Action == joblist.BulkSetTier {
		return dry.about() + " to " + ui.Words(string(v.Tier))
	}
	if v.Priority != nil {
		return dry.about() + " to " + strconv.Itoa(*v.Priority)
	}
	return dry.about()
}

// percent is how much of the operation is done.
func (v bulkView) percent() float64 {
	if v.Matched == 0 {
		return 100
	}
	return 100 * float64(v.Done+v.Failed) / float64(v.Matched)
}

// meter is the colour of the progress.
func (v bulkView) meter() string { return strings.ToLower(v.state()) }

// left estimates how long the rest takes at the operation's pace.
func (v bulkView) left() string {
	rest := v.Matched - v.Done - v.Failed
	if rest == 0 || v.Paused || !v.FinishedAt.IsZero() {
		return ""
	}
	return ui.Duration(time.Duration(rest) * time.Minute / time.Duration(v.PerMinute))
}

// outcome says in words what an error code of an item means.
func outcome(code string) string {
	switch apierror.Code(code) {
	case apierror.CodeConflict:
		return "Left unchanged: the job's state had changed"
	case apierror.CodeNotFound:
		return "Left unchanged: the job no longer exists"
	case apierror.CodeInternal:
		return "Internal error"
	case apierror.CodeQuotaExceeded, apierror.CodeRateLimited:
		return "A limit was reached"
	case apierror.CodeForbidden, apierror.CodeUnauthenticated:
		return "Not permitted"
	}
	return ui.Words(code)
}

// request is the operation's filter in words.
func (v bulkView) request() string {
	var f struct {
		joblist.JobFilter
		IDs int `json:"ids"`
	}
	if err := json.Unmarshal(v.BulkOperation.Filter, &f); err != nil {
		return ui.Unknown
	}
	if f.IDs > 0 {
		return fmt.Sprintf("%s selected by hand", countJobs(f.IDs))
	}
	if f.Dead {
		return "dead letters: " + (address.Jobs{Status: f.Status, Search: f.Search, From: f.CreatedAfter, To: f.CreatedBefore}).Describe()
	}
	return (address.Jobs{Status: f.Status, Search: f.Search, From: f.CreatedAfter, To: f.CreatedBefore}).Describe()
}

// jobsPath is the address of the list of the operation's jobs.
func (v bulkView) jobsPath() string {
	return address.Jobs{Search: "bulk:" + string(v.ID)}.Path("/jobs")
}

func (c *controller) bulkList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readBulkList(r.Context(), p, r.URL.Query().Get("open") != "", r.URL.Query().Get("after"))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, bulkListPage(v))
}

func (c *controller) bulkListLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	open := r.URL.Query().Get("open") != ""
	return c.Refresh(w, r, p, (&bulkList{Open: open}).live(), func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readBulkList(ctx, p, open, "")
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return bulkTable(v)
		}, nil
	})
}

const bulkListSize = 50

func (c *controller) readBulkList(ctx context.Context, p jobs.Principal, open bool, after string) (*bulkList, error) {
	found, err := c.Bulk.List(ctx, p, open, paging.Request{First: bulkListSize, After: after})
	if err != nil {
		return nil, err
	}
	v := &bulkList{Open: open, After: after, Now: time.Now()}
	for _, op := range found.Items {
		row, err := c.bulkView(ctx, op)
		if err != nil {
			return nil, err
		}
		v.Rows = append(v.Rows, row)
	}
	if found.More {
		v.Older = address.Jobs{After: found.End}.Path(v.path("/bulk"))
		if open {
			v.Older = "/bulk?open=1&after=" + found.End
		}
	}
	return v, nil
}

func (c *controller) bulkView(ctx context.Context, op *joblist.BulkOperation) (bulkView, error) {
	names, err := c.AccountNames(ctx, []models.AccountID{op.AccountID})
	return bulkView{BulkOperation: op, Account: names[op.AccountID], Now: time.Now()}, err
}

func (c *controller) bulkShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	op, err := c.Bulk.Get(r.Context(), p, models.BulkID(r.PathValue("id")))
	if err != nil {
		return err
	}
	v, err := c.bulkView(r.Context(), op)
	if err != nil {
		return err
	}
	if v.Keys, err = c.KeyNames(r.Context(), p, string(op.StartedBy)); err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, bulkShowPage(v))
}

func (c *controller) bulkShowLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := models.BulkID(r.PathValue("id"))
	return c.Refresh(w, r, p, "/bulk/"+string(id), func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
		op, err := c.Bulk.Get(ctx, p, id)
		if err != nil {
			return nil, err
		}
		v, err := c.bulkView(ctx, op)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return bulkProgress(v)
		}, nil
	})
}

// bulkSteer pauses, resumes or cancels an operation. It is harmless if that happened already.
func (c *controller) bulkSteer(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := models.BulkID(r.PathValue("id"))
	verb := path.Base(r.URL.Path)
	steer := map[string]func(context.Context, jobs.Principal, models.BulkID) (*joblist.BulkOperation, error){
		"pause": c.Bulk.Pause, "resume": c.Bulk.Resume, "cancel": c.Bulk.Cancel,
	}[verb]
	_, err := steer(r.Context(), p, id)
	if err != nil && !apierror.HasCode(err, apierror.CodeConflict) {
		return err
	}
	told := map[string]string{"pause": "Paused after the jobs in progress.", "resume": "Resumed.",
		"cancel": "Cancelled after the jobs in progress."}[verb]
	if err != nil {
		told = "This operation is already finished."
	}
	return c.Done(w, r, "/bulk/"+string(id), told)
}
