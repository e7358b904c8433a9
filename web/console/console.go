// Package console is the operator console. Its pages are rendered on the server and
// work without JavaScript; with it, they update live.
//
// A page is a triple: a handler with its typed view, the view's .templ, and a test. Each section has
// its package, whose Routes lists its pages. What all pages share is in package shell.
package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
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

// New returns the console. It responds to unknown paths with its error page.
func New(config Config) http.Handler {
	pages := newShell(shellConfig{
		Keys: config.Keys, Reader: config.Reader, Logs: config.Logs, ObjectsOrigin: config.ObjectsOrigin,
		Name: config.Name, Secure: config.Secure, CheckLoginsEvery: config.CheckLoginsEvery,
	})
	return pages.handler(routes(pages, config))
}

// routes lists the pages of all sections.
func routes(pages *console, config Config) []route {
	charts := newChartReader(config.Reader)
	return slices.Concat(
		pages.ownRoutes(),
		accessRoutes(pages, accessConfig{Keys: config.Keys, Members: config.Members, Accounts: config.Accounts, Reader: config.Reader, Schedules: config.Schedules, SSO: config.SSO, Secure: config.Secure}),
		overviewRoutes(pages, overviewConfig{Reader: config.Reader, Alerts: config.Alerts}, charts),
		jobRoutes(pages, jobConfig{Reader: config.Reader, Watcher: config.Watcher, Submitter: config.Submitter, Canceller: config.Canceller, Deleter: config.Deleter, Operator: config.Operator, Letters: config.Letters, Retrier: config.Retrier, Logs: config.Logs}),
		bulkopsRoutes(pages, bulkopsConfig{Bulk: config.Bulk}),
		deadlettersRoutes(pages, deadlettersConfig{Reader: config.Reader, Letters: config.Letters, Bulk: config.Bulk}),
		schedulesRoutes(pages, schedulesConfig{Reader: config.Reader, Schedules: config.Schedules}),
		workflowsRoutes(pages, workflowsConfig{Reader: config.Reader, Workflows: config.Workflows}),
		queuesRoutes(pages, queuesConfig{Reader: config.Reader, Operator: config.Operator}, charts),
		poolsRoutes(pages, poolsConfig{Reader: config.Reader, Fleet: config.Fleet, Pools: config.Pools}),
		workersRoutes(pages, workersConfig{Reader: config.Reader, Fleet: config.Fleet}),
		modelRoutes(pages, modelConfig{Reader: config.Reader, Registry: config.Registry}),
		alertsRoutes(pages, alertsConfig{Reader: config.Reader, Alerts: config.Alerts}),
		webhooksRoutes(pages, webhooksConfig{Reader: config.Reader, Webhooks: config.Webhooks}),
		changesRoutes(pages, changesConfig{Reader: config.Reader}),
		systemRoutes(pages, systemConfig{Reader: config.Reader, Operator: config.Operator, Monitor: config.Monitor, Examine: config.Examine, Redis: config.Redis}),
		apidocsRoutes(pages, apidocsConfig{OpenAPI: config.OpenAPI}),
	)
}

// Pages returns the patterns of all pages that are read, for measurements.
func Pages() []string {
	var all []string
	for _, route := range routes(newShell(shellConfig{}), Config{}) {
		if strings.HasPrefix(route.pattern, "GET ") {
			all = append(all, route.pattern)
		}
	}
	return all
}
