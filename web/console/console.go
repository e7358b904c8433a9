// Package console is the operator console: pages rendered on the server that also
// work without JavaScript, and that move by themselves with it.
//
// A page is a triple: a handler with its typed view, the view's .templ, and a
// test. routes.go lists them all.
package console

import (
	"cmp"
	"net/http"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/reelay/reelay/jobs/fleet"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/jobs/watch"
)

// Config is what the console shows and steers.
type Config struct {
	Keys      *auth.Keys
	Reader    *query.Reader
	Watcher   *watch.Watcher
	Submitter *jobs.Submitter
	Canceller *jobs.Canceller
	Operator  *jobs.Operator
	Fleet     *fleet.Operator
	// Monitor is asynqmon, as the function Monitor makes it.
	Monitor http.Handler
	// OpenAPI is the document of the REST API, which a page shows; without it there is
	// no such page.
	OpenAPI []byte
	// ObjectsOrigin is where links to films lead, such as
	// https://storage.googleapis.com; empty means here.
	ObjectsOrigin string
	// Secure tells that browsers reach the console over HTTPS.
	Secure bool
	// CheckLoginsEvery is how often the login of an open stream is checked again:
	// 4 seconds if it is 0.
	CheckLoginsEvery time.Duration
}

type console struct {
	Config
	policy   string
	attempts *attempts
	restAPI  *apiDocs
}

// New makes the console. It serves every path that it is given, and answers
// those that it does not know with its error page.
func New(config Config) http.Handler {
	config.CheckLoginsEvery = cmp.Or(config.CheckLoginsEvery, checkLoginsEvery)
	c := &console{Config: config, policy: contentPolicy(config.ObjectsOrigin), attempts: newAttempts(), restAPI: readOpenAPI(config.OpenAPI)}
	mux := http.NewServeMux()
	for _, route := range c.routes() {
		mux.Handle(route.pattern, c.page(route))
	}
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, errCrossOrigin, sectionOf(r.URL.Path))
	}))
	return compressed(c.secured(origin.Handler(mux)))
}
