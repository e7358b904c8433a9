package job

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// systemViews are the views that everybody has.
var systemViews = []struct{ name, query string }{
	{"Running now", "sort=running"},
	{"Failed today", "range=24h&sort=ended&status=FAILED"},
	{"Waiting longest", "sort=waiting"},
	{"Dead-letter candidates", "q=-class%3Ainvalid_input%2Ccontent_policy%2Cunauthorized%2Cbudget_exceeded%2Cdependency_failed&range=7d&status=FAILED"},
}

// savedView is a view as the list of views shows it.
type savedView struct {
	*joblist.SavedView
	Mine bool
	// Problem is why its query no longer parses, or "".
	Problem string
}

// path is the address of the view's list. If its query no longer parses, that page says so.
func (v savedView) path() string { return "/jobs?" + v.Query }

// viewList is the view of the page with all saved views.
type viewList struct{ Rows []savedView }

// viewForm is the view of the form that makes or changes a saved view.
type viewForm struct {
	ID      models.ViewID
	Name    string
	Query   string
	Shared  bool
	Problem *apierror.Error
	// Broken is why the query does not parse, or "".
	Broken string
}

func (v *viewForm) invalid(field string) bool { return v.Problem != nil && v.Problem.Field == field }

// action is the address that the form is posted to.
func (v *viewForm) action() string {
	if v.ID == "" {
		return "/views/new"
	}
	return "/views/" + string(v.ID) + "/edit"
}

// viewProblem says why the query of a view no longer parses, or returns "".
func viewProblem(text string) string {
	values, err := url.ParseQuery(text)
	if err != nil {
		return "The query cannot be read."
	}
	q, err := address.ReadJobs(values)
	if err == nil {
		_, err = query.ParseSearch(q.Search)
	}
	var problem *apierror.Error
	if errors.As(err, &problem) {
		return problem.Message
	}
	return ""
}

func (c *controller) readViews(ctx context.Context, p jobs.Principal) ([]savedView, error) {
	views := c.Reads.Views
	found, err := views.List(ctx, p)
	var all []savedView
	for _, v := range found {
		all = append(all, savedView{v, views.Mine(p, v), viewProblem(v.Query)})
	}
	return all, err
}

func (c *controller) viewList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	rows, err := c.readViews(r.Context(), p)
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, viewListPage(&viewList{rows}))
}

// viewNew shows the form for the query in the address.
func (c *controller) viewNew(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	q, err := address.ReadJobs(r.URL.Query())
	if err != nil {
		return err
	}
	q.After = ""
	return shell.Render(w, r, http.StatusOK, viewFormPage(&viewForm{Query: q.Values().Encode()}))
}

func (c *controller) viewEdit(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	view, err := c.Reads.Views.Get(r.Context(), p, models.ViewID(r.PathValue("id")))
	if err != nil {
		return err
	}
	v := &viewForm{ID: view.ID, Name: view.Name, Query: view.Query, Shared: view.Shared, Broken: viewProblem(view.Query)}
	return shell.Render(w, r, http.StatusOK, viewFormPage(v))
}

// viewSave makes a view, or changes the one in the address.
func (c *controller) viewSave(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v := &viewForm{
		ID: models.ViewID(r.PathValue("id")), Name: strings.TrimSpace(r.PostForm.Get("name")), Shared: r.PostForm.Get("shared") != "",
		Query: strings.TrimPrefix(strings.TrimSpace(r.PostForm.Get("query")), "?"),
	}
	if v.Broken = viewProblem(v.Query); v.Broken != "" {
		v.Problem = apierror.Invalid("query", "%s", v.Broken)
		return shell.Render(w, r, http.StatusUnprocessableEntity, viewFormPage(v))
	}
	saved, err := c.Reads.Views.Save(r.Context(), p, query.ViewInput{ID: v.ID, Name: v.Name, Query: v.Query, Shared: v.Shared})
	if errors.As(err, &v.Problem) && (v.Problem.Code == apierror.CodeInvalidInput || v.Problem.Code == apierror.CodeConflict) {
		return shell.Render(w, r, http.StatusUnprocessableEntity, viewFormPage(v))
	}
	if err != nil {
		return err
	}
	return c.Done(w, r, savedView{SavedView: saved}.path(), "Saved the view "+ui.Clip(ui.Upright(saved.Name), 80)+".")
}

func (c *controller) viewConfirm(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	view, err := c.Reads.Views.Get(r.Context(), p, models.ViewID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, viewDeletePage(view))
}

// viewDelete is harmless for a view that is gone already.
func (c *controller) viewDelete(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	err := c.Reads.Views.Delete(r.Context(), p, models.ViewID(r.PathValue("id")))
	if err != nil && !apierror.HasCode(err, apierror.CodeNotFound) {
		return err
	}
	return c.Done(w, r, "/views", "Deleted the view.")
}
