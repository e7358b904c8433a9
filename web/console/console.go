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
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/features/erase"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/features/pricebook"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/features/registry"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/features/webhook"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/internal/signon"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/web/console/access"
	"github.com/reelay/reelay/web/console/alerts"
	"github.com/reelay/reelay/web/console/apidocs"
	"github.com/reelay/reelay/web/console/bulkops"
	"github.com/reelay/reelay/web/console/changes"
	"github.com/reelay/reelay/web/console/costs"
	"github.com/reelay/reelay/web/console/deadletters"
	"github.com/reelay/reelay/web/console/job"
	"github.com/reelay/reelay/web/console/model"
	"github.com/reelay/reelay/web/console/overview"
	"github.com/reelay/reelay/web/console/pools"
	"github.com/reelay/reelay/web/console/queues"
	"github.com/reelay/reelay/web/console/reports"
	"github.com/reelay/reelay/web/console/schedules"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/system"
	"github.com/reelay/reelay/web/console/trends"
	"github.com/reelay/reelay/web/console/webhooks"
	"github.com/reelay/reelay/web/console/workers"
	"github.com/reelay/reelay/web/console/workflows"
)

// Config is what the console reads and calls.
type Config struct {
	Keys        *auth.Keys
	Members     *auth.Members
	Accounts    *auth.Accounts
	Budgets     *budget.Budgets
	Eraser      *erase.Eraser
	Reads       *query.Reads
	Watcher     *watch.Watcher
	Submitter   *submit.Submitter
	Canceller   *operate.Canceller
	Deleter     *operate.Deleter
	Operator    *operate.QueueOperator
	Registry    *registry.Registry
	Fleet       *fleet.WorkerOperator
	Pools       *fleet.Pools
	Engines     *fleet.Engines
	Providers   *hosted.Accounts
	Prices      *pricebook.Prices
	DeadLetters *operate.DeadLetters
	Retrier     *operate.Retrier
	Webhooks    *webhook.Endpoints
	Bulk        *bulk.Bulk
	Schedules   *schedule.Schedules
	Workflows   *workflow.Workflows
	// Logs reads stored logs; nil if pages show none.
	Logs shell.Logs
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
	Redis func(context.Context) *system.Redis
	// Region returns how the regions stand, or nil if there is only one; it is nil if that is never known.
	Region func(context.Context) (*region.Report, error)
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
	pages := shell.New(shell.Config{
		Keys: config.Keys, Reads: config.Reads, Logs: config.Logs, ObjectsOrigin: config.ObjectsOrigin,
		Name: config.Name, Secure: config.Secure, CheckLoginsEvery: config.CheckLoginsEvery,
	})
	return pages.Handler(routes(pages, config))
}

// routes lists the pages of all sections.
func routes(pages *shell.Shell, config Config) []shell.Route {
	charts := trends.NewReader(config.Reads)
	return slices.Concat(
		pages.Routes(),
		access.Routes(pages, access.Config{Keys: config.Keys, Members: config.Members, Accounts: config.Accounts,
			Eraser: config.Eraser, Reads: config.Reads,
			Schedules: config.Schedules, SSO: config.SSO, Secure: config.Secure}),
		overview.Routes(pages, overview.Config{Reads: config.Reads, Alerts: config.Alerts}, charts),
		job.Routes(pages, job.Config{Reads: config.Reads, Watcher: config.Watcher, Submitter: config.Submitter, Canceller: config.Canceller,
			Deleter: config.Deleter, Operator: config.Operator, Letters: config.DeadLetters, Retrier: config.Retrier, Logs: config.Logs}),
		bulkops.Routes(pages, bulkops.Config{Bulk: config.Bulk}),
		deadletters.Routes(pages, deadletters.Config{Reads: config.Reads, Letters: config.DeadLetters, Bulk: config.Bulk}),
		schedules.Routes(pages, schedules.Config{Reads: config.Reads, Schedules: config.Schedules}),
		workflows.Routes(pages, workflows.Config{Reads: config.Reads, Workflows: config.Workflows}),
		queues.Routes(pages, queues.Config{Reads: config.Reads, Operator: config.Operator}, charts),
		pools.Routes(pages, pools.Config{Reads: config.Reads, Fleet: config.Fleet, Pools: config.Pools, Engines: config.Engines,
			Providers: config.Providers}),
		workers.Routes(pages, workers.Config{Reads: config.Reads, Fleet: config.Fleet}),
		model.Routes(pages, model.Config{Reads: config.Reads, Registry: config.Registry}),
		alerts.Routes(pages, alerts.Config{Reads: config.Reads, Alerts: config.Alerts}),
		webhooks.Routes(pages, webhooks.Config{Reads: config.Reads, Webhooks: config.Webhooks}),
		costs.Routes(pages, costs.Config{Reads: config.Reads, Budgets: config.Budgets, Prices: config.Prices}),
		reports.Routes(pages, reports.Config{Reads: config.Reads}),
		changes.Routes(pages, changes.Config{Reads: config.Reads}),
		system.Routes(pages, system.Config{Reads: config.Reads, Operator: config.Operator, Monitor: config.Monitor, Examine: config.Examine,
			Redis: config.Redis, Region: config.Region}),
		apidocs.Routes(pages, apidocs.Config{OpenAPI: config.OpenAPI}),
	)
}

// Pages returns the patterns of all pages that are read, for measurements.
func Pages() []string {
	var all []string
	for _, route := range routes(shell.New(shell.Config{}), Config{}) {
		if strings.HasPrefix(route.Pattern, "GET ") {
			all = append(all, route.Pattern)
		}
	}
	return all
}
