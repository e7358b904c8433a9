package console

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/web/door"
)

// shellConfig is what every page needs.
type shellConfig struct {
	Keys   *auth.Keys
	Reader *query.Reader
	// Logs reads stored logs; nil if pages show none.
	Logs Logs
	// ObjectsOrigin is the origin of links to videos, such as
	// https://storage.googleapis.com; empty if it is this server.
	ObjectsOrigin string
	// Name tells this installation from others, such as "staging"; empty for none.
	Name string
	// Secure is true if browsers reach the console over HTTPS.
	Secure bool
	// CheckLoginsEvery is the interval at which the login of an open stream is checked:
	// 4 seconds if it is 0.
	CheckLoginsEvery time.Duration
}

// console is what the pages of all sections share: sessions, the layout, streams and errors.
type console struct {
	shellConfig
	policy string
	lists  feeds[listState]
}

// newShell returns a shell for the routes of the sections.
func newShell(config shellConfig) *console {
	config.CheckLoginsEvery = cmp.Or(config.CheckLoginsEvery, checkLoginsEvery)
	return &console{shellConfig: config, policy: contentPolicy(config.ObjectsOrigin)}
}

// handler serves the routes. It responds to unknown paths with the error page.
func (c *console) handler(routes []route) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.pattern, c.page(route))
	}
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, errCrossOrigin, sectionOf(r.URL.Path))
	}))
	return compressed(c.secured(origin.Handler(mux)))
}

// page handles a request of a logged-in operator. If it returns an error, it must not
// have written anything: the console shows the error page.
type page func(w http.ResponseWriter, r *http.Request, p jobs.Principal) error

type route struct {
	pattern string
	serve   page
	// open pages need no login. Their principal is empty.
	open bool
	// admin pages are for ADMIN. The others are for VIEWER to read and for OPERATOR to act.
	admin bool
	// own actions concern the caller's own login, so VIEWER may perform them, too.
	own bool
	// files means that the form may have files.
	files bool
	// back is the address of the page with the button of this action. The console
	// returns to it after a login, or if the action fails.
	back string
}

// backFrom returns the address of the page to return to after a failed request.
func (r route) backFrom(req *http.Request) string {
	if r.back != "" {
		return strings.ReplaceAll(r.back, "{id}", url.PathEscape(req.PathValue("id")))
	}
	return sectionOf(req.URL.Path)
}

// ownRoutes lists the pages that belong to no section.
func (c *console) ownRoutes() []route {
	return []route{
		{pattern: "GET /static/", serve: c.static, open: true},
		{pattern: "GET /{$}", serve: c.home},
		{pattern: "GET /keyboard", serve: c.keyboard},
		{pattern: "/", serve: c.unknown, open: true},
	}
}

// page checks the login of a request, runs its handler, and shows its error.
func (c *console) page(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := int64(maxForm)
		if route.files && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
			limit = maxFiles
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		door.Serve(w, r, func(w http.ResponseWriter) error {
			var p jobs.Principal
			r = c.visited(r, p)
			defer func() { forgetFiles(r) }()
			if !route.open {
				var err error
				if p, err = c.principal(r); err != nil {
					return err
				}
				if r, err = c.visitedBy(r, p); err != nil { // the error page needs it, too
					return err
				}
				if err := route.admit(r.Method, p); err != nil {
					return err
				}
				// asynqmon, whose patterns name no method, knows no token: its origin is checked.
				if strings.HasPrefix(route.pattern, "POST ") {
					if err := visitOf(r.Context()).checkForm(r); err != nil {
						return err
					}
				}
			}
			return route.serve(w, r, p)
		}, func(w http.ResponseWriter, err error) {
			back := route.backFrom(r)
			switch {
			case errors.Is(err, apierror.ErrUnauthenticated) && asksForPage(r):
				http.Redirect(w, r, loginPath(r.URL.RequestURI()), http.StatusSeeOther)
			case errors.Is(err, apierror.ErrUnauthenticated) && route.back != "" && r.Method == http.MethodPost:
				http.Redirect(w, r, loginPath(back), http.StatusSeeOther)
			default:
				c.fail(w, r, err, back)
			}
		})
	})
}

func (c *console) unknown(http.ResponseWriter, *http.Request, jobs.Principal) error {
	return errNoPage
}

func (c *console) static(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	name := strings.TrimPrefix(r.URL.Path, "/static/")
	content, url, ok := readAsset(name)
	if !ok {
		return errNoPage
	}
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.RequestURI() == url {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	return nil
}
