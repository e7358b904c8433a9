package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
)

// page answers one request of who is logged in. What it returns as an error
// becomes the error page: until then it must not have written anything.
type page func(w http.ResponseWriter, r *http.Request, p jobs.Principal) error

type route struct {
	pattern string
	serve   page
	// open pages need no login, and their principal is empty.
	open bool
	// back is the page that has the button of this action. A person who is not
	// logged in, or whose action fails, is led back there.
	back string
}

// backFrom is the address of the page to return to from a request that failed.
func (r route) backFrom(req *http.Request) string {
	if r.back != "" {
		return strings.ReplaceAll(r.back, "{id}", url.PathEscape(req.PathValue("id")))
	}
	return sectionOf(req.URL.Path)
}

// routes is every page of the console.
func (c *console) routes() []route {
	return []route{
		{pattern: "GET /login", serve: c.loginForm, open: true},
		{pattern: "POST /login", serve: c.logIn, open: true},
		{pattern: "POST /logout", serve: c.logOut, open: true},
		{pattern: "GET /static/", serve: c.static, open: true},
		{pattern: "GET /graphql", serve: c.graphiql, open: true},
		{pattern: "GET /api/docs", serve: c.apiDocs, open: true},

		{pattern: "GET /{$}", serve: c.home},
		{pattern: "GET /jobs", serve: c.jobList},
		{pattern: "GET /jobs/live", serve: c.jobListLive},
		{pattern: "GET /jobs/new", serve: c.jobNew},
		{pattern: "POST /jobs/new", serve: c.jobSubmit, back: "/jobs/new"},
		{pattern: "GET /jobs/{id}", serve: c.jobShow},
		{pattern: "GET /jobs/{id}/live", serve: c.jobLive},
		{pattern: "GET /jobs/{id}/video", serve: c.jobVideo, back: "/jobs/{id}"},
		{pattern: "POST /jobs/{id}/cancel", serve: c.jobCancel, back: "/jobs/{id}"},
		{pattern: "GET /artifacts/{id}", serve: c.artifact},

		{pattern: "GET /workers", serve: c.workerList},
		{pattern: "GET /workers/live", serve: c.workerListLive},
		{pattern: "POST /workers/{id}/drain", serve: c.workerDrain, back: "/workers"},
		{pattern: "POST /workers/{id}/preempt", serve: c.workerPreempt, back: "/workers"},
		{pattern: "GET /workers/{id}/terminate", serve: c.workerConfirm},
		{pattern: "POST /workers/{id}/terminate", serve: c.workerTerminate, back: "/workers"},

		{pattern: "GET /queues", serve: c.queueList},
		{pattern: "GET /queues/live", serve: c.queueListLive},
		{pattern: "GET /queues/{lane}/pause", serve: c.queueConfirm},
		{pattern: "POST /queues/{lane}/pause", serve: c.queuePause, back: "/queues"},
		{pattern: "POST /queues/{lane}/resume", serve: c.queueResume, back: "/queues"},

		{pattern: "/asynqmon", serve: c.monitor},
		{pattern: "/asynqmon/", serve: c.monitor},
		{pattern: "/", serve: c.unknown, open: true},
	}
}

// page lets a request through to its handler, if who sends it may.
func (c *console) page(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		var p jobs.Principal
		var err error
		if !route.open {
			p, err = c.principal(r)
		}
		if err == nil {
			err = route.serve(w, r, p)
		}
		switch {
		case err == nil:
		case errors.Is(err, apierror.ErrUnauthenticated) && asksForPage(r):
			http.Redirect(w, r, loginPath(r.URL.RequestURI()), http.StatusSeeOther)
		case errors.Is(err, apierror.ErrUnauthenticated) && route.back != "" && r.Method == http.MethodPost:
			http.Redirect(w, r, loginPath(route.backFrom(r)), http.StatusSeeOther)
		default:
			c.fail(w, r, err, route.backFrom(r))
		}
	})
}

// sectionOf is the address of the list that a page belongs to.
func sectionOf(path string) string {
	for _, section := range []string{"/workers", "/queues"} {
		if strings.HasPrefix(path, section) {
			return section
		}
	}
	return "/jobs"
}

func (c *console) home(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	http.Redirect(w, r, "/jobs", http.StatusSeeOther)
	return nil
}

func (c *console) unknown(http.ResponseWriter, *http.Request, jobs.Principal) error {
	return errNoPage
}
