// Package shell is what all pages of the console share: sessions and form tokens, the layout and its
// navigation, streams, errors, and the parts of forms and lists.
package shell

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
	"github.com/reelay/reelay/web/console/static"
	"github.com/reelay/reelay/web/door"
)

// Config is what every page needs.
type Config struct {
	Keys  *auth.Keys
	Reads *query.Reads
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

// Shell is what the pages of all sections share: sessions, the layout, streams and errors.
type Shell struct {
	Config
	policy string
	lists  Feeds[listState]
}

// New returns a shell for the routes of the sections.
func New(config Config) *Shell {
	config.CheckLoginsEvery = cmp.Or(config.CheckLoginsEvery, checkLoginsEvery)
	return &Shell{Config: config, policy: contentPolicy(config.ObjectsOrigin)}
}

// Handler serves the routes. It responds to unknown paths with the error page.
func (c *Shell) Handler(routes []Route) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.Pattern, c.page(route))
	}
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, errCrossOrigin, sectionOf(r.URL.Path))
	}))
	return compressed(c.secured(origin.Handler(mux)))
}

// Page handles a request of a logged-in operator. If it returns an error, it must not
// have written anything: the console shows the error page.
type Page func(w http.ResponseWriter, r *http.Request, p jobs.Principal) error

// Route is a page or an action of the console.
type Route struct {
	Pattern string
	Serve   Page
	// Open pages need no login. Their principal is empty.
	Open bool
	// Admin pages are for ADMIN. The others are for VIEWER to read and for OPERATOR to act.
	Admin bool
	// Own actions concern the caller's own login, so VIEWER may perform them, too.
	Own bool
	// Files means that the form may have files.
	Files bool
	// Back is the address of the page with the button of this action. The console
	// returns to it after a login, or if the action fails.
	Back string
}

// backFrom returns the address of the page to return to after a failed request.
func (r Route) backFrom(req *http.Request) string {
	if r.Back != "" {
		return strings.ReplaceAll(r.Back, "{id}", url.PathEscape(req.PathValue("id")))
	}
	return sectionOf(req.URL.Path)
}

// Routes lists the pages that belong to no section.
func (c *Shell) Routes() []Route {
	return []Route{
		{Pattern: "GET /static/", Serve: c.static, Open: true},
		{Pattern: "GET /{$}", Serve: c.home},
		{Pattern: "GET /keyboard", Serve: c.keyboard},
		{Pattern: "/", Serve: c.unknown, Open: true},
	}
}

// page checks the login of a request, runs its handler, and shows its error.
func (c *Shell) page(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := int64(maxForm)
		if route.Files && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
			limit = maxFiles
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		door.Serve(w, r, func(w http.ResponseWriter) error {
			var p jobs.Principal
			r = c.visited(r, p)
			defer func() { forgetFiles(r) }()
			if !route.Open {
				var err error
				if p, err = c.Principal(r); err != nil {
					return err
				}
				if r, err = c.visitedBy(r, p); err != nil { // the error page needs it, too
					return err
				}
				if err := route.admit(r.Method, p); err != nil {
					return err
				}
				// asynqmon, whose patterns name no method, knows no token: its origin is checked.
				if strings.HasPrefix(route.Pattern, "POST ") {
					if err := visitOf(r.Context()).checkForm(r); err != nil {
						return err
					}
				}
			}
			return route.Serve(w, r, p)
		}, func(w http.ResponseWriter, err error) {
			back := route.backFrom(r)
			switch {
			case errors.Is(err, apierror.ErrUnauthenticated) && asksForPage(r):
				http.Redirect(w, r, loginPath(r.URL.RequestURI()), http.StatusSeeOther)
			case errors.Is(err, apierror.ErrUnauthenticated) && route.Back != "" && r.Method == http.MethodPost:
				http.Redirect(w, r, loginPath(back), http.StatusSeeOther)
			default:
				c.fail(w, r, err, back)
			}
		})
	})
}

func (c *Shell) unknown(http.ResponseWriter, *http.Request, jobs.Principal) error {
	return ErrNoPage
}

func (c *Shell) static(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	name := strings.TrimPrefix(r.URL.Path, "/static/")
	content, url, ok := static.Read(name)
	if !ok {
		return ErrNoPage
	}
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.RequestURI() == url {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	return nil
}
