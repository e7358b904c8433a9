package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/workflow"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

// noPages are the GET routes that TestPages does not open, and why. Streams, whose patterns end
// with /live, are none either.
var noPages = map[string]string{
	"/login/sso": "leads to the provider", "/login/sso/callback": "is the page of the login, or leads on",
	"/static/": "files", "/{$}": "leads to the first page", "/asynqmon": "another's page", "/asynqmon/": "another's page",
	"/":                "the error page",
	"/overview/charts": "a part of the overview", "/heatmap/charts": "a part of a page", "/queues/charts": "a part of a page",
	"/queues/{lane}/charts": "a part of a page", "/jobs/suggest": "data", "/jobs/export.csv": "data", "/jobs/export.jsonl": "data", "/costs.csv": "data", "/costs/statement": "a page to print", "/system/reports.csv": "data",
	"/jobs/{id}/raw":         "data",
	"/jobs/{id}/events.json": "data",
	"/jobs/{id}/video":       "leads to the file", "/artifacts/{id}": "leads to the file",
}

// requireEveryPage fails for a GET route without a page in the table.
func requireEveryPage(t *testing.T, pages map[string]string) {
	t.Helper()
	mux := http.NewServeMux()
	missing := map[string]bool{}
	for _, r := range routes(shell.New(shell.Config{}), Config{}) {
		mux.Handle(r.Pattern, http.NotFoundHandler())
		method, path, ok := strings.Cut(r.Pattern, " ")
		if !ok {
			method, path = http.MethodGet, r.Pattern
		}
		if method == http.MethodGet && noPages[path] == "" && !strings.HasSuffix(path, "/live") {
			missing[r.Pattern] = true
		}
	}
	for _, path := range pages {
		address, err := url.Parse(path)
		require.NoError(t, err)
		_, pattern := mux.Handler(&http.Request{Method: http.MethodGet, URL: address})
		delete(missing, pattern)
	}
	require.Empty(t, missing, "routes that TestPages does not open: add a page with alsoPages, or a reason to noPages")
}

// markup ends an attribute, loads a picture that fails, and hides a direction. If a page writes it
// as it stands, there is an element of the class pwned.
const markup = `"><img class=pwned src=x onerror=alert(1)>` + "\u202e"

// unescaped lists what markup, or an address that is a script, made of a page.
const unescaped = `[...document.querySelectorAll(".pwned, [onerror], a[href^='javascript' i], form[action^='javascript' i]")].map((each) => each.outerHTML)`

// reversed lists texts with a mark that turns the direction of writing around, and with it what is beside
// the text: see ui.Upright. Elements of their own direction keep it to themselves.
const reversed = `(() => {
	const found = [];
	for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
		const node = walk.currentNode;
		if (!/[\u202a-\u202e\u2066-\u2069]/.test(node.data) || node.parentElement.closest("script, textarea")) continue;
		if (!/plaintext|isolate/.test(getComputedStyle(node.parentElement).unicodeBidi)) found.push(node.parentElement.outerHTML.slice(0, 300));
	}
	return found;
})()`

// strangersFill lists the columns of text that strangers fill, beside what the seeds enter.
var strangersFill = map[string][]string{
	"accounts": {"name"}, "api_keys": {"name"}, "members": {"name"}, "saved_views": {"name"}, "webhook_deliveries": {"last_error"},
	"webhook_endpoints": {"disabled_reason"},
	"jobs":              {"user_id", "idempotency_key", "failure_reason", "cancel_reason", "progress_message", "region", "alias"},
	"job_runs":          {"failure_reason"},
	"job_attempts":      {"failure_reason", "error_detail"}, "workers": {"provider_instance_id", "zone", "agent_version", "drain_reason",
		"machine"},
	"machines": {"instance_id"}, "engines": {"reason", "version", "gpu_name"},
	"pools": {"region", "machine_type", "gpu_type"}, "scaling_decisions": {"reason", "error"}, "dead_letters": {"reason", "note"},
	"alerts": {"message"}, "alert_silences": {"reason"},
	"queue_pauses": {"reason"}, "halts": {"halted_by", "reason"}, "quarantines": {"reason"}, "schedules": {"name", "workflow", "paused_by",
		"pause_reason"}, "schedule_slots": {"reason"},
	"workflows": {"name", "cancel_reason"}, "approvals": {"note", "decided_by"},
}

// poison appends markup to every text that strangers fill.
func (b *browser) poison(t *testing.T) {
	t.Helper()
	for table, columns := range strangersFill {
		for _, column := range columns {
			b.Exec(t, "UPDATE "+table+" SET "+column+" = "+column+" || ?", markup)
		}
	}
	b.Exec(t, `UPDATE jobs SET metadata = ?, output = ? WHERE status <> 'QUEUED'`, `{"a`+strings.ReplaceAll(markup, `"`, `\"`)+`": "`+
		strings.ReplaceAll(markup, `"`, `\"`)+`"}`, `{"text": "<img class=pwned>"}`)
}

var _ = alsoPages(func(t *testing.T, b *browser) map[string]string {
	hostile := func(in submit.Submission) *models.Job {
		t.Helper()
		in.Model, in.Prompt = "testcard", "a prompt "+markup
		in.UserID, in.Metadata, in.IdempotencyKey = "user", []byte(`{"campaign": "a"}`), new(string(models.NewJobID()))
		job, _, err := b.Submitter.Submit(t.Context(), b.Client, in)
		require.NoError(t, err)
		return job
	}
	waiting := hostile(submit.Submission{})
	job := func(id models.JobID, rest string) string { return "/jobs/" + string(id) + rest }
	cancelled := hostile(submit.Submission{})
	_, err := b.Canceller.CancelFor(t.Context(), b.Admin, cancelled.ID, "not needed")
	require.NoError(t, err)
	dead := b.dies(t, b.Worker(t, "crasher"), models.FailUnauthorized, "the server refused "+markup,
		strings.Repeat("\x1b[31m"+markup+"\x1b[0m\n", 20))
	attempts, err := b.Edges(t, dead.JobID).Attempts(t.Context())
	require.NoError(t, err)

	drafts, err := b.Submitter.Takes(t.Context(), b.Client, submit.Submission{Model: "testcard", Prompt: "a take " + markup, Priority: 90,
		Draft: &submit.Draft{Steps: 6}}, 2, []int64{1, 2})
	require.NoError(t, err)
	jobstest.FinishDraft(t, b.Stack, b.Worker(t, "drafter"), b.Reload(t, drafts[0].Job.ID))
	_, _, err = b.Submitter.Continue(t.Context(), b.Client, drafts[0].Job.ID)
	require.NoError(t, err)

	for _, user := range []string{"", "user"} {
		_, err = b.Budgets.Set(t.Context(), b.Admin, budget.Input{AccountID: b.Account.ID, UserID: user, Period: budgets.PerMonth, Soft: true, LimitUSD: decimal.NewFromInt(9)})
		require.NoError(t, err)
	}
	operation, err := b.Bulk.Start(t.Context(), b.Admin,
		bulk.Request{Action: joblist.BulkCancel, IDs: []models.JobID{hostile(submit.Submission{}).ID, cancelled.ID}})
	require.NoError(t, err)
	jobstest.FinishBulk(t, b.Stack, operation.ID)
	view := models.NewViewID()
	require.NoError(t, joblist.PutSavedView(t.Context(), b.DB, &joblist.SavedView{ID: view, Owner: "somebody", Shared: true, Name: "Old",
		Query: "q=" + url.QueryEscape("colour:"+markup)}))

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, markup, http.StatusTeapot) }))
	t.Cleanup(refusing.Close)
	endpoint, _, err := b.Webhooks.CreateEndpoint(t.Context(), b.Client, refusing.URL+`/?<img+class=pwned>`, webhooks.FormatStandard, nil)
	require.NoError(t, err)
	_, err = b.Webhooks.Test(t.Context(), b.Client, endpoint.ID)
	require.NoError(t, err)
	jobstest.CancelledJob(t, b.Stack)
	jobstest.Deliver(t, b.Stack)

	closed := b.NewAccount(t, "closed "+strings.TrimSuffix(markup, "\u202e"), models.TierFree)
	_, err = b.Eraser.Start(t.Context(), b.Admin, closed.ID, closed.Name)
	require.NoError(t, err)
	b.FireAlert(t)
	_, err = b.Alerts.Silence(t.Context(), b.Admin, "queue-depth", 60, "known")
	require.NoError(t, err)
	invitation, err := b.Members.Create(t.Context(), b.Admin, auth.NewMember{Email: "ana@example.com", Name: "Ana", Role: access.RoleOperator})
	require.NoError(t, err)
	key := b.NewKey(t, b.Account, access.RoleViewer)
	_, err = b.Accounts.Update(t.Context(), b.Admin, b.Account.ID, auth.AccountInput{MaxRunning: new(90)})
	require.NoError(t, err)
	_, err = b.Operator.PauseQueue(t.Context(), b.Admin, models.TierFree, "", strings.TrimSuffix(markup, "\u202e"))
	require.NoError(t, err)
	worker := b.Worker(t, "spot")
	_, err = b.Fleet.QuarantineWorker(t.Context(), b.Admin, worker.WorkerID, 5, "it is loud")
	require.NoError(t, err)
	active, paused, done := b.schedule(t, "every morning "+strings.TrimSuffix(markup, "\u202e")), b.schedule(t, "every night"),
		b.schedule(t, "done")
	_, err = b.Schedules.FireNow(t.Context(), b.Client, active.ID, time.Time{})
	require.NoError(t, err)
	_, err = b.Schedules.Pause(t.Context(), b.Admin, paused.ID, "the holidays")
	require.NoError(t, err)
	question, err := json.Marshal("Which? " + strings.TrimSuffix(markup, "\u202e"))
	require.NoError(t, err)
	asked, _, err := b.Workflows.Submit(t.Context(), b.Client, workflow.Input{Name: "asked", Jobs: []workflow.Node{
		{Key: "a", Job: submit.Submission{Model: "testcard", Prompt: "fog"}},
		{Key: "pick", Job: submit.Submission{Model: models.TypeApproval, Params: fmt.Appendf(nil, `{"candidates": ["{{a.video}}"], "question": %s}`, question)}},
	}})
	require.NoError(t, err)
	b.Exec(t, `INSERT INTO approvals (job_id, run, on_timeout, expires_at)
		SELECT job_id, 1, 'reject', now() + interval '1 day' FROM workflow_nodes WHERE workflow_id = ? AND key = 'pick'`, asked.ID)
	film, nightly := b.SubmitWorkflow(t, b.Client, "film", "shots.s1", "shots.s2", "film"), filmSchedule(t, b)
	on := func(verb string) string { return "/workers/" + string(worker.WorkerID) + verb }
	b.poison(t)

	return map[string]string{
		"gallery": "/gallery", "log": job(dead.JobID, "/log/"+string(attempts[0].ID)),
		"search in a log": job(dead.JobID, "/log/"+string(attempts[0].ID)+"?q=img"), "search help": "/jobs/search-help",
		"waiting job": job(waiting.ID, ""), "failed job": job(dead.JobID, ""), "cancel": job(waiting.ID, "/cancel"),
		"order": job(waiting.ID, "/order"), "retry": job(cancelled.ID, "/retry"), "delete": job(cancelled.ID, "/delete"),
		"redrive job": job(dead.JobID, "/redrive"), "clone": "/jobs/new?from=" + string(waiting.ID), "jobs of a hostile filter": "/jobs?q=" +
			url.QueryEscape("colour:"+markup),
		"bulk": "/bulk", "bulk operation": "/bulk/" + string(operation.ID), "new bulk": "/bulk/new?action=SET_TIER&all=1", "views": "/views",
		"new view": "/views/new?q=fog", "edit view": "/views/" + string(view) + "/edit", "delete view": "/views/" + string(view) + "/delete",
		"discard takes": "/takes/" + string(drafts[0].Job.TakesID) + "/discard", "continued takes": "/takes/" + string(drafts[0].Job.TakesID),
		"webhooks": "/webhooks", "new webhook": "/webhooks/new", "new bucket": "/webhooks/bucket",
		"bucket keys": "/webhooks/" + string(endpoint.ID) + "/keys", "webhook": "/webhooks/" + string(endpoint.ID), "rotate": "/webhooks/" +
			string(endpoint.ID) + "/rotate", "disable webhook": "/webhooks/" + string(endpoint.ID) + "/disable", "delete webhook": "/webhooks/" +
			string(endpoint.ID) + "/delete",
		"worker": on(""), "drain": on("/drain"), "preempt": on("/preempt"), "quarantine": on("/quarantine"), "queue": "/queues/enterprise",
		"remove model": "/models/show/drill/remove", "alerts": "/alerts", "past alerts": "/alerts?history=1",
		"alert rule": "/alerts/rules/queue-depth", "silence": "/alerts/silence?rule=queue-depth",
		"schedules": "/schedules", "schedule": address.Schedule(active.ID), "paused schedule": address.Schedule(paused.ID),
		"pause schedule": address.Schedule(active.ID) + "/pause", "delete schedule": address.Schedule(done.ID) + "/delete",
		"schedule of a workflow": address.Schedule(nightly.ID), "edit schedule of a workflow": address.Schedule(nightly.ID) + "/edit",
		"workflows of a schedule": "/workflows?schedule=" + string(nightly.ID),
		"workflows":               "/workflows", "workflow": address.Workflow(film.ID), "cancel workflow": address.Workflow(film.ID) + "/cancel",
		"answer": address.Workflow(asked.ID) + "/answer?key=pick", "approval link": b.linkOf(t, asked),
		"accounts": "/accounts", "new account": "/accounts/new", "edit account": "/accounts/" + string(b.Account.ID) + "/edit",
		"delete account": "/accounts/" + string(b.Account.ID) + "/delete", "deletion": "/accounts/" + string(closed.ID) + "/deletion",
		"members": "/members", "member": "/members/" + string(invitation.Member.ID), "join": "/join/" + invitation.Token,
		"keys": "/keys", "new key": "/keys/new", "revoke": "/keys/" + string(key.KeyID) + "/revoke", "audit": "/audit", "changes": "/changes",
		"costs": "/costs", "costs by day": "/costs?time=year&by=day", "budgets": "/budgets", "set a budget": "/budgets/set",
		"prices of providers": "/costs/prices", "reports": "/system/reports",
		"me": "/me",
	}
})
