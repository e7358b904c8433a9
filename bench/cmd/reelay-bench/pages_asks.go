package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/history"
	"github.com/reelay/reelay/web/console"
	"github.com/uptrace/bun"
)

// places are things of the history that pages are about. Jobs are by what is special about them.
type places struct {
	Completed models.JobID        `bun:"completed"`
	Failed    models.JobID        `bun:"failed"`
	Queued    models.JobID        `bun:"queued"`
	Running   models.JobID        `bun:"running"`
	Parent    models.JobID        `bun:"parent"` // of many children
	Draft     models.JobID        `bun:"draft"`
	Attempt   models.AttemptID    `bun:"attempt"`
	Artifact  models.ArtifactID   `bun:"artifact"`
	Takes     models.TakesID      `bun:"takes"`
	Letter    models.DeadLetterID `bun:"letter"`
	Cause     string              `bun:"cause"`
	Bulk      models.BulkID       `bun:"bulk"`
	Pool      models.PoolID       `bun:"pool"`
	Account   models.AccountID    `bun:"account"`
	Member    models.MemberID     `bun:"member"`
	Key       models.KeyID        `bun:"key"`
	View      models.ViewID       `bun:"view"`
}

func findPlaces(ctx context.Context, db bun.IDB) (*places, error) {
	found := new(places)
	err := db.NewRaw(`
		SELECT *, (SELECT id FROM artifacts WHERE job_id = completed AND type = 'FINAL_VIDEO') AS artifact FROM (SELECT
			(SELECT id FROM jobs WHERE status = 'COMPLETED' ORDER BY id DESC LIMIT 1) AS completed,
			(SELECT job_id FROM dead_letters WHERE resolved_at IS NULL ORDER BY id DESC LIMIT 1) AS failed,
			(SELECT id FROM jobs WHERE status = 'QUEUED' ORDER BY id LIMIT 1) AS queued,
			(SELECT id FROM jobs WHERE status = 'RUNNING' LIMIT 1) AS running,
			(SELECT depends_on FROM job_dependencies GROUP BY 1 ORDER BY count(*) DESC LIMIT 1) AS parent,
			(SELECT id FROM jobs WHERE takes_id IS NOT NULL LIMIT 1) AS draft,
			(SELECT current_attempt_id FROM jobs WHERE status = 'RUNNING' LIMIT 1) AS attempt,
			(SELECT takes_id FROM jobs WHERE takes_id IS NOT NULL LIMIT 1) AS takes,
			(SELECT id FROM dead_letters WHERE resolved_at IS NULL ORDER BY id DESC LIMIT 1) AS letter,
			(SELECT fingerprint FROM dead_letters WHERE resolved_at IS NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT 1) AS cause,
			(SELECT operation_id FROM bulk_items LIMIT 1) AS bulk,
			(SELECT id FROM pools ORDER BY name LIMIT 1) AS pool,
			(SELECT id FROM accounts ORDER BY name LIMIT 1) AS account,
			(SELECT id FROM members LIMIT 1) AS member,
			(SELECT id FROM api_keys WHERE role = 'CLIENT' LIMIT 1) AS key,
			(SELECT id FROM saved_views LIMIT 1) AS view) places`).Scan(ctx, found)
	if err != nil {
		return nil, fmt.Errorf("find what pages are about: %w", err)
	}
	return found, nil
}

// unmeasured are the pages that need what is not there, such as an object or a login elsewhere, and
// the exports, which last as long as there are jobs.
var unmeasured = []string{
	"GET /login", "GET /login/sso", "GET /login/sso/callback", "GET /join/{token}", "GET /static/", "GET /{$}",
	"GET /jobs/{id}/video", "GET /jobs/{id}/log/{attempt}", "GET /artifacts/{id}", "GET /models/show/{id}/remove", "GET /takes/{id}/discard",
	"GET /jobs/{id}/redrive",
	"GET /schedules/{id}", "GET /schedules/{id}/edit", "GET /schedules/{id}/pause", "GET /schedules/{id}/delete",
	"GET /jobs/export.csv", "GET /jobs/export.jsonl",
}

// asks returns all requests: each page of the console at least once.
func (p *places) asks() ([]ask, error) {
	var all []ask
	var missing []string
	routes := http.NewServeMux()
	for _, pattern := range console.Pages() {
		routes.HandleFunc(pattern, http.NotFound)
	}
	paths := slices.Concat(p.jobPages(), p.jobLists(), p.deadLetterPages(), p.fleetPages(), p.otherPages())
	for _, pattern := range console.Pages() {
		if slices.Contains(unmeasured, pattern) {
			continue
		}
		before := len(all)
		for _, path := range paths {
			r, err := http.NewRequest(http.MethodGet, path, nil)
			if err != nil {
				return nil, err
			}
			if _, matched := routes.Handler(r); matched == pattern {
				all = append(all, ask{path: path})
			}
		}
		if len(all) == before {
			missing = append(missing, pattern)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("these pages are not measured: %s", strings.Join(missing, ", "))
	}
	for _, query := range p.queries() {
		all = append(all, ask{query: query})
	}
	return all, nil
}

func (p *places) jobPages() (all []string) {
	for _, id := range []models.JobID{p.Completed, p.Failed, p.Queued, p.Running, p.Parent, p.Draft} {
		for _, page := range []string{"", "/live", "/raw"} {
			all = append(all, "/jobs/"+string(id)+page)
		}
	}
	for _, page := range []string{"/cancel", "/order"} {
		all = append(all, "/jobs/"+string(p.Queued)+page)
	}
	for _, page := range []string{"/retry", "/delete"} {
		all = append(all, "/jobs/"+string(p.Failed)+page)
	}
	return append(all, "/jobs/new", "/jobs/search-help", "/jobs/suggest?term=model:a", "/jobs/suggest?term=user:", "/jobs/suggest?term=pool:",
		"/takes/"+string(p.Takes), "/takes/"+string(p.Takes)+"/live")
}

// searches are the texts of searches that are frequent, rare, and without any match.
func (p *places) searches() []string {
	return []string{
		"bulk:" + string(p.Bulk), "pool:pool-1", "pool:none", "zone:r1-a", "checkpoint:>10m", "checkpoint:<10m", "checkpoint:>30d", "waste:>50",
		"age:<1h", "age:>7d",
		"worker:" + string(history.Busy), "worker:" + string(history.Quiet), "user:crowd", "user:user-5", "account:" + string(history.Big),
		"class:timeout", "class:poison",
		"meta:campaign=c6", "meta:stage=prod", "prod", "c6", "nothing", "-status:completed", "model:gam", "tier:free", "lane:pro", "type:still",
		"-type:video",
		"pool:pool-1 zone:r1-a status:failed", "pool:pool-2 status:scheduled", "checkpoint:>1d status:running", "zone:r2-b user:nobody", "bulk:" +
			string(p.Bulk) + " status:scheduled",
		"meta:stage=prod status:scheduled", "class:timeout model:alpha tier:free", string(p.Completed)[:12],
	}
}

func (p *places) jobLists() []string {
	all := []string{"/jobs", "/jobs/live", "/jobs?size=100", "/jobs?range=1h", "/jobs?range=7d",
		"/gallery", "/gallery?model=alpha", "/gallery?user=crowd", "/gallery?within=24h", "/gallery?user=nobody"}
	for _, status := range models.JobStatuses {
		all = append(all, "/jobs?status="+string(status), "/jobs/live?status="+string(status))
	}
	for _, sort := range []string{"oldest", "waiting", "running", "due", "ended"} {
		for _, more := range []string{"", "&q=user:crowd", "&q=pool:none", "&q=nothing", "&q=class:poison"} {
			all = append(all, "/jobs?sort="+sort+more)
		}
	}
	for _, search := range p.searches() {
		q := url.QueryEscape(search)
		all = append(all, "/jobs?q="+q, "/jobs?range=24h&q="+q)
	}
	for _, search := range []string{"", "user:crowd", "pool:pool-1", "checkpoint:>10m", "bulk:" + string(p.Bulk), "class:timeout",
		"meta:stage=prod"} {
		for _, action := range []string{"CANCEL", "RETRY", "REDRIVE"} {
			all = append(all, "/bulk/new?all=1&action="+action+"&q="+url.QueryEscape(search))
		}
	}
	return all
}

func (p *places) deadLetterPages() []string {
	cause := "/dead-letters/group%s?cause=" + p.Cause
	letter := "/dead-letters/" + string(p.Letter)
	return []string{
		"/dead-letters", "/dead-letters?audience=customer", "/dead-letters?resolved=1", "/dead-letters/live",
		fmt.Sprintf(cause, ""), fmt.Sprintf(cause, "/live"), fmt.Sprintf(cause, "/redrive"), fmt.Sprintf(cause, "/discard"),
		letter, letter + "/redrive", letter + "/discard",
	}
}

func (p *places) fleetPages() (all []string) {
	for _, worker := range []models.WorkerID{history.Busy, history.Quiet} {
		for _, page := range []string{"", "/live", "/drain", "/preempt", "/quarantine", "/terminate"} {
			all = append(all, "/workers/"+string(worker)+page)
		}
	}
	for _, page := range []string{"", "/live", "/edit", "/delete"} {
		all = append(all, "/pools/"+string(p.Pool)+page)
	}
	return append(all, "/workers", "/workers?all=1", "/workers/act?verb=drain&id="+string(history.Busy), "/workers/live", "/pools",
		"/pools/live", "/pools/new", "/queues", "/queues/live", "/queues/charts", "/queues/charts?range=7d", "/queues/pro", "/queues/pro/live",
		"/queues/pro/charts", "/queues/pro/pause",
		"/heatmap", "/heatmap?hours=24", "/heatmap?hours=168", "/heatmap/live", "/heatmap/charts", "/heatmap/charts?hours=168", "/models",
		"/models/apply", "/models/show/testcard")
}

func (p *places) otherPages() []string {
	endpoint, bulk, view, member := "/webhooks/"+string(history.Endpoint), "/bulk/"+string(p.Bulk), "/views/"+string(p.View), "/members/"+
		string(p.Member)
	return []string{
		"/overview", "/overview?range=24h", "/overview?range=7d", "/overview/live", "/overview/charts", "/overview/charts?range=24h",
		"/overview/charts?range=7d",
		"/doctor", "/doctor/live", "/system", "/system/live", "/system/halt", "/keyboard", "/graphql", "/api/docs", "/bulk", "/bulk?open=1",
		"/bulk/live", bulk, bulk + "/live",
		"/views", "/views/new", view + "/edit", view + "/delete", "/webhooks", "/webhooks/new", endpoint, endpoint + "?failed=1", endpoint +
			"/rotate", endpoint + "/disable", endpoint + "/delete",
		"/schedules", "/schedules/live", "/schedules/new", "/alerts", "/alerts?history=1", "/alerts/live", "/alerts/rules/queue-depth",
		"/alerts/silence", "/accounts", "/accounts/new", "/accounts/" + string(p.Account) + "/edit",
		"/members", member, "/keys", "/keys?account=" + string(p.Account), "/keys/new", "/keys/" + string(p.Key) + "/revoke",
		"/audit", "/audit?actor=ann", "/audit?actor=nobody", "/audit?action=cancelJob", "/audit?target=target-50", "/me",
	}
}

// queries are the GraphQL queries of overview, history and lists.
func (p *places) queries() []string {
	all := []string{
		"{ overview { queued running scheduled blocked deadLetters workersIdle failureRate waitSecondsP95 estimatedDrainSeconds } }",
		"{ heatMap(hours: 24) { region gpuType depth verdict { cause } } }",
		"{ queues { tier } }", "{ pools { name } }", "{ workers(first: 200) { edges { node { id } } totalCount } }",
		"{ deadLetterGroups { fingerprint count } }", "{ deadLetterStats { total } }",
		"{ webhookEndpoints { id } }", "{ webhookDeliveries(failedOnly: true) { edges { node { id } } } }",
		"{ bulkOperations { edges { node { id } } } }", "{ draftUsage { continued { drafts } } }", "{ auditLog { edges { node { at } } } }",
		"{ alerts(active: false) { id } }",
	}
	for _, days := range []int{1, 7, 60, 399} {
		all = append(all, fmt.Sprintf(`{ history(metrics: [SUBMITTED, WAIT_P95, GPU_UTILIZATION, WASTED_COST, QUEUED], from: %q) { values } }`,
			time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339)))
	}
	for _, search := range p.searches() {
		all = append(all, fmt.Sprintf(`{ jobs(first: 100, filter: {search: %q}) { edges { node { id status } } totalCount } }`,
			strings.ReplaceAll(search, `"`, "")))
	}
	return all
}
