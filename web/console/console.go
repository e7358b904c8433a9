// Package console is the operator console. Its pages are rendered on the server and
// work without JavaScript; with it, they update live.
//
// A page is a triple: a handler with its typed view, the view's .templ, and a test.
// routes.go lists all pages.
package console

import (
	"context"
	"net/http"
	"time"

	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/signon"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
)

// Config is what the console reads and calls.
type Config struct {
	Keys      *auth.Keys
	Members   *auth.Members
	Accounts  *auth.Accounts
	Reader    *query.Reader
	Watcher   *watch.Watcher
	Submitter *submit.Submitter
	Canceller *operate.Canceller
	Deleter   *operate.Deleter
	Operator  *operate.Operator
	Registry  *registry.Registry
	Fleet     *fleet.Operator
	Pools     *fleet.Pools
	Letters   *operate.DeadLetters
	Retrier   *operate.Retrier
	Webhooks  *webhook.Endpoints
	Bulk      *bulk.Bulk
	Schedules *schedule.Schedules
	Workflows *workflow.Workflows
	// Logs reads stored logs; nil if pages show none.
	Logs Logs
	// SSO is the OpenID provider at which members can log in; nil for none.
	SSO *signon.Provider
	// Alerts are those that fire.
	Alerts *alert.Desk
	// Monitor is asynqmon, as the function Monitor returns it; nil for none.
	Monitor http.Handler
	// Examine runs the checks of the doctor, and calls progress before each; nil if they cannot be
	// run from the console.
	Examine func(ctx context.Context, progress func(done, of int, next string)) ([]doctor.Finding, error)
	// Redis describes Redis, or returns nil if it does not answer; it is nil if that is never known.
	Redis func(context.Context) *Redis
	// OpenAPI is the document of the REST API, for the page about it; nil for no page.
	OpenAPI []byte
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

type console struct {
	Config
	exams    exams
	policy   string
	attempts *attempts
	restAPI  *apiDocs
	lists    feeds[listState]
	jobPages feeds[*jobView]
	pasts    pasts
}
