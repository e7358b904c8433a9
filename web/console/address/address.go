// Package address writes the addresses of pages, and reads those of lists.
package address

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// Pool returns the address of a pool's page.
func Pool(id models.PoolID) templ.SafeURL { return templ.SafeURL("/pools/" + string(id)) }

// Machine returns the address of the ledger's row of a machine, by the provider's name of it.
func Machine(instance string) templ.SafeURL {
	return templ.SafeURL("/pools/machines?instance=" + url.QueryEscape(instance))
}

// WorkerName names a worker in a link to its page.
func WorkerName(w *models.Worker) string {
	return cmp.Or(ui.Upright(w.Name()), ui.Short(string(w.ID)))
}

// Worker returns the address of a worker's page.
func Worker(id models.WorkerID) templ.SafeURL { return templ.SafeURL("/workers/" + string(id)) }

// Model returns the address of a model's page.
func Model(name string) string { return "/models/show/" + url.PathEscape(name) }

// Lane returns the address of a lane's page.
func Lane(lane models.Tier) string { return "/queues/" + strings.ToLower(string(lane)) }

// Schedule returns the address of a schedule's page.
func Schedule(id models.ScheduleID) string { return "/schedules/" + string(id) }

// Workflows is which workflows a page shows.
type Workflows struct {
	// Schedule is the one that submitted them, or "".
	Schedule models.ScheduleID
	// After is where the page begins, or "" for the first one.
	After string
}

// Path returns the address of the list of these workflows.
func (q Workflows) Path() string {
	values := url.Values{}
	if q.Schedule != "" {
		values.Set("schedule", string(q.Schedule))
	}
	if q.After != "" {
		values.Set("after", q.After)
	}
	if len(values) == 0 {
		return "/workflows"
	}
	return "/workflows?" + values.Encode()
}

// Workflow returns the address of a workflow's page.
func Workflow(id models.WorkflowID) string { return "/workflows/" + string(id) }

// Job returns the address of a job's page.
func Job(id models.JobID) templ.SafeURL { return templ.SafeURL("/jobs/" + string(id)) }

// ByID are the pages about what an id names, by the kind of the id.
var ByID = map[string]func(id string) string{
	"job": func(id string) string { return "/jobs/" + id },
	"pol": func(id string) string { return "/pools/" + id },
	"wrk": func(id string) string { return "/workers/" + id },
	"sch": func(id string) string { return "/schedules/" + id },
	"wfl": func(id string) string { return "/workflows/" + id },
	"mem": func(id string) string { return "/members/" + id },
	"acc": func(id string) string { return "/accounts/" + id + "/edit" },
}

// Webhook returns the address of an endpoint's page.
func Webhook(id models.WebhookEndpointID) string { return "/webhooks/" + string(id) }

// Cause returns the address of a page about the dead letters with one cause.
func Cause(page, fingerprint string, resolved bool) string {
	v := url.Values{"cause": {fingerprint}}
	if resolved {
		v.Set("resolved", "1")
	}
	return "/dead-letters/group" + page + "?" + v.Encode()
}
