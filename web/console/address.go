package console

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

func poolPath(id models.PoolID) templ.SafeURL { return templ.SafeURL("/pools/" + string(id)) }

func workerName(w *models.Worker) string {
	return cmp.Or(ui.Upright(w.Name()), ui.Short(string(w.ID)))
}

// workerPath returns the address of a worker's page.
func workerPath(id models.WorkerID) templ.SafeURL { return templ.SafeURL("/workers/" + string(id)) }

func modelPath(name string) string { return "/models/show/" + url.PathEscape(name) }

// lanePath returns the address of a lane's page.
func lanePath(lane models.Tier) string { return "/queues/" + strings.ToLower(string(lane)) }

func schedulePath(id models.ScheduleID) string { return "/schedules/" + string(id) }

// workflowQuery is which workflows a page shows.
type workflowQuery struct {
	// Schedule is the one that submitted them, or "".
	Schedule models.ScheduleID
	// After is where the page begins, or "" for the first one.
	After string
}

func (q workflowQuery) path() string {
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

func workflowPath(id models.WorkflowID) string { return "/workflows/" + string(id) }

func jobPath(id models.JobID) templ.SafeURL { return templ.SafeURL("/jobs/" + string(id)) }

// idPaths are the pages about what an id names, by the kind of the id.
var idPaths = map[string]func(id string) string{
	"job": func(id string) string { return "/jobs/" + id },
	"pol": func(id string) string { return "/pools/" + id },
	"wrk": func(id string) string { return "/workers/" + id },
	"sch": func(id string) string { return "/schedules/" + id },
	"wfl": func(id string) string { return "/workflows/" + id },
	"mem": func(id string) string { return "/members/" + id },
	"acc": func(id string) string { return "/accounts/" + id + "/edit" },
}

func webhookPath(id models.WebhookEndpointID) string { return "/webhooks/" + string(id) }

// causePath returns the address of a page about the dead letters with one cause.
func causePath(page, fingerprint string, resolved bool) string {
	v := url.Values{"cause": {fingerprint}}
	if resolved {
		v.Set("resolved", "1")
	}
	return "/dead-letters/group" + page + "?" + v.Encode()
}
