package graph_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/bulk"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/joblist"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"
)

// What to do when a new field makes TestTenancyOfTheWholeSchema fail:
//   - "answered something else than NOT_FOUND": either the field shows another account's object (fix that), or it
//     refuses another of its arguments first (add a valid one to literals).
//   - "was never selected": let furnish add a row for the field, for both accounts.
//   - "a stream without ids": test separately that it contains only the caller's objects, and list it in streams.

// literals are valid arguments for fields that would otherwise refuse the call, by field and
// argument, or by input type and field.
var literals = map[string]string{
	"ProgressInput.phase":        "RENDERING",
	"startBulkOperation.action":  "CANCEL",
	"startBulkOperation.dryRun":  "true",
	"SubmitJobInput.model":       `"testcard"`,
	"ids.prefix":                 `"job_ffffffff"`,
	"ScheduleInput.everySeconds": "60",
	"ScheduleInput.workflow":     "null", // in place of the job
	"SubmitJobInput.draft":       "{steps: 1}",
	"SubmitJobInput.prompt":      `"x"`,
}

// streams are subscriptions without ids, with the tests that check their tenancy.
var streams = []string{"jobChanges"} // jobs.TestChanges

// unselected are fields that a client never gets.
var unselected = []string{
	"DeadLetter", "DeadLetterConnection", "DeadLetterEdge", "DeadLetterGroup", "DeadLetterStats", "FailingHost", "Halt", "Pool", "Queue",
	"QueueAccount", "ScalingDecision",
	"Machine", "MachineConnection", "MachineEdge", "WorkerConnection", "WorkerEdge",
}

// walk queries everything in the served schema.
type walk struct {
	schema   *ast.Schema
	selected map[string]bool
}

func (w *walk) holdsID(t *ast.Type, inside ...string) bool {
	def := w.schema.Types[t.Name()]
	if def.Name == "ID" {
		return true
	}
	return def.Kind == ast.InputObject && !slices.Contains(inside, def.Name) &&
		slices.ContainsFunc(def.Fields, func(f *ast.FieldDefinition) bool { return w.holdsID(f.Type, append(inside, def.Name)...) })
}

// literal writes a value of a type. All ids in it are the same.
func (w *walk) literal(t *ast.Type, id string) string {
	if t.Elem != nil {
		return "[" + w.literal(t.Elem, id) + "]"
	}
	def := w.schema.Types[t.NamedType]
	switch {
	case def.Kind == ast.Enum:
		return def.EnumValues[0].Name
	case def.Kind == ast.InputObject:
		var fields []string
		for _, f := range def.Fields {
			if value, listed := literals[def.Name+"."+f.Name]; listed {
				fields = append(fields, f.Name+": "+value)
			} else if f.Type.NonNull && f.DefaultValue == nil || w.holdsID(f.Type, def.Name) {
				fields = append(fields, f.Name+": "+w.literal(f.Type, id))
			}
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	return map[string]string{
		"ID": fmt.Sprintf("%q", id), "Int": "1", "Float": "1", "Int64": "1", "Boolean": "false", "JSON": "{}", "Time": `"2030-01-01T00:00:00Z"`,
	}[def.Name] + map[bool]string{true: `"x"`}[def.Name == "String"]
}

// call writes a field with its arguments and everything that it can select.
func (w *walk) call(f *ast.FieldDefinition, id string, depth int, path ...string) string {
	var args []string
	for _, a := range f.Arguments {
		value, listed := literals[f.Name+"."+a.Name]
		switch {
		case listed:
		case a.Name == "first":
			value = "3"
		case a.Type.NonNull && a.DefaultValue == nil || w.holdsID(a.Type):
			value = w.literal(a.Type, id)
		default:
			continue
		}
		args = append(args, a.Name+": "+value)
	}
	call := f.Name
	if len(args) > 0 {
		call += "(" + strings.Join(args, ", ") + ")"
	}
	def := w.schema.Types[f.Type.Name()]
	if !def.IsCompositeType() {
		return call
	}
	inner := w.selection(def, id, depth-1, append(path, def.Name)...)
	if inner == "" {
		return ""
	}
	return call + " {" + inner + "}"
}

func (w *walk) selection(def *ast.Definition, id string, depth int, path ...string) string {
	if def.Kind == ast.Interface || def.Kind == ast.Union {
		var on []string
		for _, possible := range w.schema.GetPossibleTypes(def) {
			on = append(on, "... on "+possible.Name+" {"+w.selection(possible, id, 0, possible.Name)+"}") // other queries go deeper
		}
		return strings.Join(append(on, "__typename"), " ")
	}
	parts := []string{"__typename"}
	for i, f := range def.Fields {
		kind := w.schema.Types[f.Type.Name()]
		again := slices.Contains(path[:len(path)-1], kind.Name) && w.selected[def.Name+"."+f.Name]
		if kind.IsCompositeType() && (depth <= 0 || again) {
			continue
		}
		deep := depth
		if slices.Contains(path, kind.Name) { // such as the job that continues a job
			deep = min(depth, 1)
		}
		// the queries workflow and job go deeper
		if def.Name == "Job" && kind.Name == "Workflow" || def.Name == "WorkflowJob" && kind.Name == "Job" {
			deep = min(depth, 1)
		}
		if def.Name == "Attempt" && kind.Name == "Worker" { // the query worker goes deeper
			deep = min(depth, 1)
		}
		if kind.Name == "Approval" && !w.selected["ApprovalCandidate.job"] { // no query begins nearer to it
			deep = 3
		}
		if def.Name == "Worker" && kind.Name == "Pool" { // the query pool goes deeper
			deep = min(depth, 1)
		}
		if part := w.call(f, id, deep, path...); part != "" {
			w.selected[def.Name+"."+f.Name] = true
			// Equal fields of two types cannot be merged.
			parts = append(parts, fmt.Sprintf("%s%d: %s", def.Name, i, part))
		}
	}
	return strings.Join(parts, " ")
}

// furnish gives an account a job in each state, with attempts, events, artifacts, a dead
// letter, a bulk operation and an open webhook delivery, all of which name the account. The
// last job runs on the worker.
func furnish(t *testing.T, s *jobstest.Stack, p, worker jobs.Principal, mark string) {
	t.Helper()
	_, _, err := s.Webhooks.CreateEndpoint(t.Context(), p, "https://example.com/"+mark, webhooks.FormatStandard, []string{"job.cancelled"})
	require.NoError(t, err)
	submitAs := func(n int) *models.Job {
		job, _, err := s.Submitter.Submit(t.Context(), p, submit.Submission{
			Model: "testcard", Prompt: "prompt of " + mark, Params: []byte(`{"durationSeconds": 1, "pace": 0}`),
			Metadata: fmt.Appendf(nil, `{"note": "metadata of %s"}`, mark), UserID: "user of " + mark,
			IdempotencyKey: new(fmt.Sprint("key ", n, " of ", mark)),
		})
		require.NoError(t, err)
		return job
	}
	submitAs(1)
	_, fence := s.Lease(t, worker)
	report := lease.ProgressReport{Progress: models.Progress{Percent: 10, Phase: models.PhaseRendering, Message: "progress of " + mark}}
	_, err = s.Attempts.ReportProgress(t.Context(), worker, fence, report)
	require.NoError(t, err)
	checkpoint := s.Upload(t, worker, fence, models.ArtifactCheckpoint, []byte("checkpoint of "+mark))
	_, err = s.Attempts.CommitCheckpoint(t.Context(), worker, fence, jobs.Checkpoint{Object: checkpoint, Step: 1, Percent: 10})
	require.NoError(t, err)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("video of "+mark))
	_, err = s.Attempts.Complete(t.Context(), worker, fence,
		lease.Completion{Video: &video, Output: fmt.Appendf(nil, `{"o": "output of %s"}`, mark)})
	require.NoError(t, err)
	submitAs(2)
	_, fence = s.Lease(t, worker)
	log := s.Upload(t, worker, fence, models.ArtifactLog, []byte("log of "+mark))
	_, err = s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "failure of " + mark,
		Log: &log})
	require.NoError(t, err)
	_, err = s.Canceller.Cancel(t.Context(), p, submitAs(3).ID)
	require.NoError(t, err)
	submitAs(4)
	_, fence = s.Lease(t, worker)
	_, err = s.Attempts.ReportProgress(t.Context(), worker, fence, report)
	require.NoError(t, err)
	_, err = s.Bulk.Start(t.Context(), p, bulk.Request{Action: joblist.BulkCancel})
	require.NoError(t, err)
}

// idsOf returns the ids of everything that belongs to an account, by kind.
func idsOf(t *testing.T, s *jobstest.Stack, account models.AccountID) map[string]string {
	t.Helper()
	ids := map[string]string{"account": string(account)}
	for kind, query := range map[string]string{
		"job":  "SELECT 'job_' || id FROM jobs WHERE account_id = ?",
		"att":  "SELECT 'att_' || a.id FROM job_attempts a JOIN jobs j ON j.id = a.job_id WHERE j.account_id = ?",
		"art":  "SELECT 'art_' || id FROM artifacts WHERE account_id = ?",
		"dead": "SELECT 'dead_' || d.id FROM dead_letters d JOIN jobs j ON j.id = d.job_id WHERE j.account_id = ?",
		"bulk": "SELECT 'bulk_' || id FROM bulk_operations WHERE account_id = ?",
		"sch":  "SELECT 'sch_' || id FROM schedules WHERE account_id = ?",
		"wfl":  "SELECT 'wfl_' || id FROM workflows WHERE account_id = ?",
		"key":  "SELECT 'key_' || id FROM api_keys WHERE account_id = ?",
		"whk":  "SELECT 'whk_' || id FROM webhook_endpoints WHERE account_id = ?",
		"whd":  "SELECT 'whd_' || id FROM webhook_deliveries WHERE account_id = ?",
	} {
		var found []string
		require.NoError(t, s.DB.NewRaw(query, account).Scan(t.Context(), &found))
		require.NotEmpty(t, found, kind)
		for i, id := range found {
			ids[fmt.Sprint(kind, i)] = id
		}
	}
	return ids
}

func TestTenancyOfTheWholeSchema(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	other := a.NewAccount(t, "other", models.TierEnterprise)
	stranger := a.NewKey(t, other, access.RoleClient)
	const mark, theirs = "account-A", "account-B"
	shared, loner := a.Worker(t, "shared"), a.Worker(t, "loner")
	furnish(t, a.Stack, a.Client, loner, mark)
	furnish(t, a.Stack, stranger, shared, theirs)
	for _, p := range []jobs.Principal{a.Client, stranger} { // after the last lease
		job := submit.Submission{Model: "testcard", Prompt: "prompt of " + map[bool]string{true: mark, false: theirs}[p == a.Client]}
		_, _, err := a.Submitter.Submit(t.Context(), p, job)
		require.NoError(t, err)
		every, err := a.Schedules.Create(t.Context(), p, schedule.Input{Name: job.Prompt, EverySeconds: 3600,
			Request: schedule.Request{Job: &job}})
		require.NoError(t, err)
		_, err = a.Schedules.FireNow(t.Context(), p, every.ID, time.Time{})
		require.NoError(t, err)
		a.SubmitWorkflow(t, p, "film of "+job.Prompt, "s1", "s2")
	}
	own, foreign := idsOf(t, a.Stack, a.Account.ID), idsOf(t, a.Stack, other.ID)
	foreign["worker"] = string(shared.WorkerID)
	own["worker"] = string(loner.WorkerID)

	w := &walk{schema: graph.NewExecutableSchema(graph.Config{}).Schema(), selected: map[string]bool{}}
	post := func(t *testing.T, key, accept, query string) (string, []string) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"query": query})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(string(body)))
		require.NoError(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {accept}, "Authorization": {"Bearer " + key}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		text := string(raw)
		for line := range strings.Lines(text) { // of a stream
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				raw = []byte(data)
			}
		}
		var said answer
		require.NoError(t, json.Unmarshal(raw, &said), text)
		return text, said.codes()
	}
	// clean fails the test if an answer contains anything of another account.
	clean := func(t *testing.T, answer, asked string) {
		t.Helper()
		require.NotContains(t, answer, theirs)
		for _, id := range foreign {
			if _, bare, _ := strings.Cut(id, "_"); id != asked && id != foreign["worker"] {
				require.NotContains(t, answer, bare)
			}
		}
	}
	refused := func(t *testing.T, key, accept, operation string, f *ast.FieldDefinition, may ...string) {
		t.Helper()
		for kind, id := range foreign {
			depth := 1
			if f.Name == "submitJobs" || f.Name == "submitTakes" {
				depth = 3 // each job is refused individually
			}
			text, codes := post(t, key, accept, operation+" {"+w.call(f, id, depth, "")+"}")
			clean(t, text, id)
			if depth > 1 && len(codes) == 0 {
				require.Contains(t, text, `"NOT_FOUND"`)
				continue
			}
			require.NotEmpty(t, codes, "%s with the other account's %s answered something else than NOT_FOUND: %s", f.Name, kind, text)
			for _, code := range codes {
				require.Contains(t, may, code, "%s with the other account's %s answered something else than NOT_FOUND: %s", f.Name, kind, text)
			}
		}
	}
	takesID := func(f *ast.FieldDefinition) bool {
		return slices.ContainsFunc(f.Arguments, func(a *ast.ArgumentDefinition) bool { return w.holdsID(a.Type) })
	}
	key := a.Secrets[access.RoleClient]
	before := a.Dump(t)

	for _, f := range w.schema.Query.Fields {
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		if takesID(f) && !slices.ContainsFunc(f.Arguments, func(a *ast.ArgumentDefinition) bool { return a.Type.NonNull }) {
			text, codes := post(t, key, "*/*", "{"+withoutIDs(w, f)+"}") // a list with a filter
			clean(t, text, "")
			require.NotContains(t, codes, "QUERY_TOO_COMPLEX", text)
		}
		if takesID(f) {
			refused(t, key, "*/*", "query", f, "NOT_FOUND", "FORBIDDEN")
			for _, id := range own {
				depth := 4
				if f.Name == "schedule" { // its jobs and workflows have more fields together than a query may
					depth = 3
				}
				text, _ := post(t, key, "*/*", "{"+w.call(f, id, depth, "")+"}")
				clean(t, text, "")
				require.NotContains(t, text, "QUERY_TOO_COMPLEX", f.Name)
				require.NotContains(t, text, "GRAPHQL_VALIDATION_FAILED")
			}
			continue
		}
		text, _ := post(t, key, "*/*", "{"+w.call(f, "", 3, "")+"}")
		clean(t, text, "")
		require.NotContains(t, text, "QUERY_TOO_COMPLEX", f.Name)
	}
	for _, f := range w.schema.Mutation.Fields {
		if !takesID(f) {
			continue
		}
		refused(t, key, "*/*", "mutation", f, "NOT_FOUND", "FORBIDDEN")
		if f.Name != "registerWorker" {
			_, token := a.worker(t, "w-"+f.Name)
			// A worker's call validates its input before it checks the owner.
			refused(t, token, "*/*", "mutation", f, "NOT_FOUND", "FORBIDDEN", "LEASE_LOST", "INVALID_INPUT")
		}
	}
	for _, f := range w.schema.Subscription.Fields {
		if !takesID(f) || slices.Contains(streams, f.Name) {
			require.Contains(t, streams, f.Name, "%s is a stream without ids", f.Name)
			continue
		}
		refused(t, key, "text/event-stream", "subscription", f, "NOT_FOUND", "FORBIDDEN")
	}

	after := a.Dump(t)
	for _, table := range slices.Sorted(maps.Keys(before)) {
		if table != "workers" && table != "api_keys" && table != "accounts" {
			require.Equal(t, before[table], after[table], "a stranger changed %s", table)
		}
	}
	for name, def := range w.schema.Types {
		if def.Kind != ast.Object || def == w.schema.Query || def == w.schema.Mutation || def == w.schema.Subscription ||
			strings.HasPrefix(name, "__") || slices.Contains(unselected, name) || !reachable(w.schema, name) {
			continue
		}
		for _, f := range def.Fields {
			require.True(t, w.selected[name+"."+f.Name], "%s.%s was never selected", name, f.Name)
		}
	}
	told, _ := post(t, key, "*/*", fmt.Sprintf("{ webhookDeliveries(endpointId: %q) { edges { node { id url } } } }", foreign["whk0"]))
	clean(t, told, "")
	mine, _ := post(t, key, "*/*", `{ jobs { edges { node { prompt metadata userId failureReason events { edges { node { payload } } } } } }
		webhookEndpoints { url } webhookDeliveries { edges { node { url } } } }`)
	require.Equal(t, 6, strings.Count(mine, "prompt of "+mark), "what is searched for would be found")
	require.Equal(t, 2, strings.Count(mine, "https://example.com/"+mark))
}

// withoutIDs writes a list's field without its filter.
func withoutIDs(w *walk, f *ast.FieldDefinition) string {
	bare := *f
	bare.Arguments = slices.DeleteFunc(slices.Clone(f.Arguments), func(a *ast.ArgumentDefinition) bool { return w.holdsID(a.Type) })
	return w.call(&bare, "", 4, "")
}

// reachable reports whether a query can select a type.
func reachable(schema *ast.Schema, name string) bool {
	seen := map[string]bool{}
	var visit func(def *ast.Definition) bool
	visit = func(def *ast.Definition) bool {
		if def.Name == name {
			return true
		}
		if seen[def.Name] {
			return false
		}
		seen[def.Name] = true
		for _, possible := range schema.GetPossibleTypes(def) {
			if possible != def && visit(possible) {
				return true
			}
		}
		return slices.ContainsFunc(def.Fields, func(f *ast.FieldDefinition) bool { return visit(schema.Types[f.Type.Name()]) })
	}
	return visit(schema.Query)
}
