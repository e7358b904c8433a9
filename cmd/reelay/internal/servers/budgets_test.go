package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/features/alert"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/history"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const budgetPath = "testdata/budgets.yaml"

var update = flag.Bool("update", false, "write what operations cost to "+budgetPath)

const (
	// The first calls of an operation are not counted: they fill caches, and PostgreSQL plans a prepared
	// statement five times on a connection before it keeps a plan. Of the counted calls the median counts.
	firstCalls, countedCalls = 20, 9
	// idleSeconds is how long idle processes are counted. Their passes run once a second to once in ten.
	idleSeconds = 10
	// historyWritten is when the last minute of history is written for sure: the recorder waits for late transactions,
	// and runs once in [history.Every].
	historyWritten = history.Every + 10*time.Second
)

// TestBudgets compares what operations cost with testdata/budgets.yaml: in numbers of statements,
// commands, rows and bytes, which a busy machine does not change.
//
// It is not parallel: it counts what the whole process allocates.
func TestBudgets(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates, too: `go tool task test:budgets` counts without it")
	}
	m := startMeter(t)
	b := &budgeted{strained: strainedOver(t, m.dsn, "testdata/budgets"), meter: m}
	m.attach(t, b.stack)
	b.http = b.handler(b.publicURL)

	b.countIdle(t)
	b.prepare(t)
	for _, o := range b.operations(t) {
		b.countOperation(t, o)
	}

	file := readBudgets(t, budgetPath)
	if *update {
		for _, c := range b.costs {
			t.Logf("%s runs:\n%s", c.name, strings.Join(c.ran, "\n"))
		}
		file.set(b.costs)
		file.write(t)
		return
	}
	if wrong := file.compare(b.costs); len(wrong) > 0 {
		t.Fatal("What operations cost is not what " + budgetPath + " says. Lower what rose. If it buys something, or if it fell, run\n" +
			"  go test ./cmd/reelay/internal/servers -run '^TestBudgets$' -update\n" +
			"and say in the file and in the commit what it buys (docs/developers/testing.md, Budgets).\n" + strings.Join(wrong, "\n"))
	}
}

// budgeted is a complete API whose operations are counted.
type budgeted struct {
	*strained
	meter *meter
	http  http.Handler

	costs []cost

	worker []holder
	client string // a key
	cookie *http.Cookie
}

// cost is what was counted of an operation.
type cost struct {
	name string
	figures
	ran []string // its statements, and its rows by table, as lines for a person
}

// holder is a worker and the job that it holds.
type holder struct {
	id, token string
	held
}

// held is a leased job, as the API names it.
type held struct {
	AttemptID, FencingToken string
	Job                     struct{ ID string }
}

// upload is where and how to put an object, as the API says it.
type upload struct {
	ObjectKey, URL, Method string
	Headers                map[string]string
}

// decode returns the data of an answer of the GraphQL API.
func decode[T any](t *testing.T, answer []byte) T {
	t.Helper()
	var got struct{ Data T }
	require.NoError(t, json.Unmarshal(answer, &got), "%s", answer)
	return got.Data
}

// operation is a call that is counted.
type operation struct {
	name string
	// ready makes what the i-th call needs, which is not counted, and returns the call.
	ready func(i int) (call func())
	// after, if not nil, checks the i-th call. It is not counted.
	after func(i int)
}

// countOperation calls an operation several times and notes its cost: the median of each count, and the least memory,
// since something else in the process may allocate meanwhile.
func (b *budgeted) countOperation(t *testing.T, o operation) {
	t.Helper()
	// A collection empties the pools of memory, and each processor has its own.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := cost{name: o.name, figures: figures{}}
	all := map[string][]int64{}
	for i := range firstCalls + countedCalls {
		call := o.ready(i)
		counted, ran := b.meter.count(t, call)
		if o.after != nil {
			o.after(i)
		}
		if i < firstCalls {
			continue
		}
		for _, name := range figureNames {
			all[name] = append(all[name], counted[name])
		}
		c.ran = ran
	}
	for name, counts := range all {
		slices.Sort(counts)
		c.figures[name] = counts[len(counts)/2]
		if inMemory[name] {
			c.figures[name] = counts[0]
		}
	}
	b.costs = append(b.costs, c)
	runtime.GC()
}

// countIdle counts what api and control do while there is nothing to do, and a worker waits for a job.
func (b *budgeted) countIdle(t *testing.T) {
	t.Helper()
	waiter := b.enrol(t, b.key(t, b.account(t, "idle", models.TierPro), access.RoleWorker), "idle")
	count := func(name string, run func(ctx context.Context, s *stack) error) {
		cfg := b.cfg
		cfg.Alerts, cfg.Retention = alert.Default(), upkeep.DefaultRetention
		s, err := openStack(t.Context(), cfg, b.publicURL)
		require.NoError(t, err)
		defer s.Close()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, s) }()
		meter := *b.meter
		meter.attach(t, s)
		pause(t, 2*time.Second) // at first they fill caches
		// Those that run once a minute or more rarely are not due for two periods.
		meter.exec(t, "UPDATE passes SET period = period + 2 WHERE period < extract(epoch FROM clock_timestamp()) / 50")
		// Control records each minute of history in the first seconds of the next one, which is no part of idling.
		const from, until = historyWritten, time.Minute - idleSeconds*time.Second
		if second := time.Since(time.Now().Truncate(time.Minute)); second < from || second > until {
			pause(t, (time.Minute+from-second)%time.Minute)
		}
		counted, ran := meter.count(t, func() { pause(t, idleSeconds*time.Second) })
		b.costs = append(b.costs, cost{name, counted, ran})
		stop()
		require.NoError(t, <-ended)
	}
	count(idlePrefix+"api", func(ctx context.Context, s *stack) error {
		handler := s.handler(b.publicURL)
		wait := b.request(t, waiter.token, leaseJob, map[string]any{
			"input": map[string]any{"workerId": waiter.id, "waitSeconds": 2 * idleSeconds},
		})
		var waiting sync.WaitGroup
		waiting.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), wait) })
		defer waiting.Wait()
		served := make(chan error)
		defer context.AfterFunc(ctx, func() { close(served) })()
		return s.api(ctx, served)
	})
	count(idlePrefix+"control", func(ctx context.Context, s *stack) error { return s.control(ctx) })
}

const (
	idlePrefix = "ten idle seconds of " // begins the names of idle processes
	pageSuffix = " page"                // ends the names of pages
)

// pause lets time pass, which alone makes idle processes do something.
func pause(t *testing.T, long time.Duration) {
	t.Helper()
	select {
	case <-time.After(long):
	case <-t.Context().Done():
	}
}

// enrol registers a worker for jobs without work.
func (b *budgeted) enrol(t *testing.T, key, instance string) holder {
	t.Helper()
	registered, err := b.customer.WithKey(key).RegisterWorker(t.Context(), client.RegisterWorkerInput{
		Provider: "static", ProviderInstanceId: instance, Region: "local", GpuType: "any",
		CapacityClass: client.CapacityClassSpot, Models: []string{"budget.noop"}, WarmModels: []string{}, AgentVersion: "test",
	})
	require.NoError(t, err)
	return holder{id: registered.Worker.Id, token: registered.WorkerToken}
}

// prepare makes accounts, workers, pools, and jobs that wait.
func (b *budgeted) prepare(t *testing.T) {
	t.Helper()
	account := b.account(t, "budgets", models.TierPro)
	b.client = b.key(t, account, access.RoleClient)
	enrolment := b.key(t, account, access.RoleWorker)
	for i := range firstCalls + countedCalls {
		b.worker = append(b.worker, b.enrol(t, enrolment, fmt.Sprint(i)))
	}
	for range 10 {
		inputs := make([]any, 100)
		for i := range inputs {
			inputs[i] = noop()
		}
		b.serve(t, b.request(t, b.client, submitJobs, map[string]any{"inputs": inputs}))
	}
	_, err := b.db.ExecContext(t.Context(), `
		INSERT INTO pools (id, name, provider, region, gpu_type, capacity_class, models, min_workers, max_workers, zones, price_per_hour_usd)
		SELECT md5(n::text)::uuid, 'pool ' || n, 'fake', 'r', 'l4', 'SPOT', '{testcard}', 4, 8, '{r-a}', 2 FROM generate_series(1, 10) n`)
	require.NoError(t, err)
	b.meter.exec(t, "DELETE FROM history") // of the idle control: how much there is depends on the clock
	b.meter.exec(t, "UPDATE accounts SET max_running = 1000")
	b.meter.exec(t, "ANALYZE")
	// Plans are made for as many rows as a large installation has.
	b.meter.exec(t, `UPDATE pg_class SET relpages = greatest(relpages, 1), reltuples = 1000000
		WHERE relname IN ('accounts', 'account_lanes', 'workers', 'jobs', 'job_attempts') OR relname LIKE 'job_events_2%'`)
	require.NoError(t, b.checkpoints.Pass(t.Context()))

	form := url.Values{"key": {b.key(t, account, access.RoleOperator)}}
	login := httptest.NewRequestWithContext(t.Context(), http.MethodPost, b.publicURL+"/login", strings.NewReader(form.Encode()))
	login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	b.http.ServeHTTP(answer, login)
	require.NotEmpty(t, answer.Result().Cookies(), answer.Body.String())
	b.cookie = answer.Result().Cookies()[0]
}

const (
	submitJob  = "mutation submitJob($input: SubmitJobInput!) { submitJob(input: $input) { job { id status } deduplicated } }"
	submitJobs = "mutation submitJobs($inputs: [SubmitJobInput!]!) { submitJobs(inputs: $inputs) {" +
		" accepted rejected results { job { id status } deduplicated } } }"
	leaseJob = "mutation leaseJob($input: LeaseJobInput!) { leaseJob(input: $input) {" +
		" lease { attemptId fencingToken job { id params } } } }"
	heartbeat      = "mutation heartbeat($input: HeartbeatInput!) { heartbeat(input: $input) { leaseExpiresAt directive { action reason } } }"
	reportProgress = "mutation reportProgress($input: ProgressInput!) { reportProgress(input: $input) {" +
		" leaseExpiresAt directive { action reason } } }"
	requestUpload = "mutation requestUpload($input: RequestUploadInput!) { requestUpload(input: $input) { objectKey url method headers } }"
	commit        = "mutation commitCheckpoint($input: CommitCheckpointInput!) { commitCheckpoint(input: $input) {" +
		" leaseExpiresAt directive { action reason } } }"
	completeJob = "mutation completeJob($input: CompleteJobInput!) { completeJob(input: $input) {" +
		" job { id status } next { attemptId fencingToken job { id params } } } }"
	cancelJob   = "mutation cancelJob($id: ID!) { cancelJob(id: $id) { id status } }"
	statusOfJob = "query job($id: ID!) { job(id: $id) { id status progress { percent phase etaSeconds } } }"
)

// operations returns what is counted, in an order in which each finds what it needs.
func (b *budgeted) operations(t *testing.T) []operation {
	var all []operation
	over := func(name string, ready func(i int) *http.Request, after func(i int, answer []byte)) {
		var request *http.Request
		var answer *httptest.ResponseRecorder
		all = append(all, operation{name, func(i int) func() {
			request, answer = ready(i), httptest.NewRecorder()
			b.useKey(t, request)
			return func() { b.http.ServeHTTP(answer, request) }
		}, func(i int) {
			requireAnswer(t, answer)
			if after != nil {
				after(i, answer.Body.Bytes())
			}
		}})
	}
	ofWorker := func(i int, query string, more map[string]any) *http.Request {
		input := map[string]any{"attemptId": b.worker[i].AttemptID, "fencingToken": b.worker[i].FencingToken}
		maps.Copy(input, more)
		return b.request(t, b.worker[i].token, query, map[string]any{"input": input})
	}

	over("submit", func(int) *http.Request {
		return b.request(t, b.client, submitJob, map[string]any{"input": prompt()})
	}, nil)
	over("submit 100", func(int) *http.Request {
		inputs := make([]any, 100)
		for i := range inputs {
			inputs[i] = prompt()
		}
		return b.request(t, b.client, submitJobs, map[string]any{"inputs": inputs})
	}, nil)
	over("lease", func(i int) *http.Request {
		// A sign of life is not written if the last one is less than 5 s old.
		b.meter.exec(t, "UPDATE workers SET last_heartbeat_at = clock_timestamp() - interval '10 s' WHERE id = split_part($1, '_', 2)::uuid",
			b.worker[i].id)
		return b.request(t, b.worker[i].token, leaseJob, map[string]any{"input": map[string]any{"workerId": b.worker[i].id, "waitSeconds": 0}})
	}, func(i int, answer []byte) {
		lease := decode[struct{ LeaseJob struct{ Lease *held } }](t, answer).LeaseJob.Lease
		require.NotNil(t, lease, "%s", answer)
		b.worker[i].held = *lease
	})
	over("heartbeat", func(i int) *http.Request {
		b.serve(t, ofWorker(i, heartbeat, nil)) // the first one starts the job
		return ofWorker(i, heartbeat, nil)
	}, nil)
	over("progress", func(i int) *http.Request {
		b.serve(t, ofWorker(i, reportProgress, map[string]any{"percent": 1, "phase": "RENDERING"}))
		return ofWorker(i, reportProgress, map[string]any{"percent": 2, "phase": "RENDERING"})
	}, nil)
	sum, size, err := client.Checksum(strings.NewReader(checkpoint))
	require.NoError(t, err)
	targets := make([]upload, len(b.worker))
	over("request an upload", func(i int) *http.Request {
		return ofWorker(i, requestUpload, map[string]any{"type": "CHECKPOINT", "contentType": "application/octet-stream", "sizeBytes": size,
			"checksum": sum})
	}, func(i int, answer []byte) {
		targets[i] = decode[struct{ RequestUpload upload }](t, answer).RequestUpload
	})
	over("commit a checkpoint", func(i int) *http.Request {
		at, err := http.NewRequestWithContext(t.Context(), targets[i].Method, b.publicURL, nil)
		require.NoError(t, err)
		at.URL, err = at.URL.Parse(targets[i].URL)
		require.NoError(t, err)
		put := httptest.NewRequestWithContext(t.Context(), targets[i].Method, at.URL.String(), strings.NewReader(checkpoint))
		for name, value := range targets[i].Headers {
			put.Header.Set(name, value)
		}
		b.serve(t, put)
		return ofWorker(i, commit, map[string]any{"step": 1, "percent": 3, "object": map[string]any{
			"objectKey": targets[i].ObjectKey, "sizeBytes": size, "checksum": sum, "contentType": "application/octet-stream",
		}})
	}, nil)
	over("read a status", func(i int) *http.Request {
		return b.request(t, b.client, statusOfJob, map[string]any{"id": b.worker[i].Job.ID})
	}, nil)
	over("end with the next lease", func(i int) *http.Request {
		return ofWorker(i, completeJob, map[string]any{"result": map[string]any{"ok": true}, "leaseNext": true})
	}, func(i int, answer []byte) {
		next := decode[struct{ CompleteJob struct{ Next *held } }](t, answer).CompleteJob.Next
		require.NotNil(t, next, "%s", answer)
		b.worker[i].held = *next
	})
	over("cancel", func(int) *http.Request {
		answer := b.serve(t, b.request(t, b.client, submitJob, map[string]any{"input": prompt()}))
		job := decode[struct {
			SubmitJob struct{ Job struct{ ID string } }
		}](t, answer).SubmitJob.Job
		return b.request(t, b.client, cancelJob, map[string]any{"id": job.ID})
	}, nil)
	over("overview"+pageSuffix, func(int) *http.Request {
		page := httptest.NewRequestWithContext(t.Context(), http.MethodGet, b.publicURL+"/overview", nil)
		page.AddCookie(b.cookie)
		return page
	}, nil)
	over("submit with a new forecast", func(int) *http.Request {
		require.NoError(t, b.estimates.Refresh(t.Context())) // the calls before had none
		return b.request(t, b.client, submitJob, map[string]any{"input": prompt()})
	}, nil)

	scaler := &fleet.Scaler{DB: b.db, Notifier: b.notifier, Providers: map[string]fleet.Provider{"fake": jobstest.NewFakeProvider()}}
	t.Cleanup(scaler.Stop)
	return append(all, operation{name: "round of the scaler", ready: func(int) func() {
		return func() { require.NoError(t, scaler.Scale(t.Context())) }
	}})
}

// checkpoint is the content of all uploaded objects.
var checkpoint = strings.Repeat("reelay", 170)

// promptText is what jobs are about.
var promptText = strings.Repeat("a lighthouse in a storm, ", 16)[:384]

// prompt returns the input of a job with a prompt.
func prompt() map[string]any {
	return map[string]any{"model": "testcard", "prompt": promptText, "idempotencyKey": uuid.NewString()}
}

// noop returns the input of a job that ends without a video.
func noop() map[string]any {
	return map[string]any{
		"type": "budget.noop", "model": "budget.noop", "params": map[string]any{"payload": promptText}, "idempotencyKey": uuid.NewString(),
	}
}

// request returns a request to the GraphQL API.
func (b *budgeted) request(t *testing.T, key, query string, variables map[string]any) *http.Request {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, b.publicURL+"/graphql", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	return request
}

// useKey makes a call with the key of a request, which is then not read again for a second.
func (b *budgeted) useKey(t *testing.T, request *http.Request) {
	t.Helper()
	if key, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer "); ok {
		b.serve(t, b.request(t, key, "{ __typename }", nil))
	}
}

// serve returns the answer to a request.
func (b *budgeted) serve(t *testing.T, request *http.Request) []byte {
	t.Helper()
	answer := httptest.NewRecorder()
	b.http.ServeHTTP(answer, request)
	requireAnswer(t, answer)
	return answer.Body.Bytes()
}

func requireAnswer(t *testing.T, answer *httptest.ResponseRecorder) {
	t.Helper()
	require.Less(t, answer.Code, http.StatusMultipleChoices, answer.Body.String())
	require.NotContains(t, answer.Body.String(), `"errors"`)
}
