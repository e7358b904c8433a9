package graph_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

const submitAs = `mutation ($i: SubmitJobInput!) { submitJob(input: $i) { deduplicated job {
	id type model status tier lane run priority prompt params idempotencyKey metadata userId attemptNo maxAttempts atMostOnce
	maxPreemptions preemptions finishBy late maxPricePerHour onDemandOnly
	progress { percent phase message step etaSeconds } failureClass failureReason cancellation { by }
	account { id name } result { id } latestCheckpoint { id } runAt expiresAt createdAt startedAt createdBy } } }`

func TestSubmitJob(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsTheJobAndItsPrompt", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		data := a.client(t, submitAs, map[string]any{"i": map[string]any{
			"model": "testcard", "prompt": "snow over a harbour 🎬", "params": map[string]any{"durationSeconds": 2},
			"metadata": map[string]any{"order": 9007199254740993}, "idempotencyKey": "k1", "priority": 3, "atMostOnce": true,
			"maxPreemptions": 0, "maxPricePerHour": 0.5, "finishBy": time.Now().Add(time.Hour),
		}})

		job := at[map[string]any](t, data, "submitJob", "job")
		require.Equal(t, "snow over a harbour 🎬", job["prompt"])
		require.Equal(t, "QUEUED", job["status"])
		require.Equal(t, true, job["atMostOnce"])
		require.Equal(t, []any{0.0, 0.0, 0.5, true, false}, []any{job["maxPreemptions"], job["preemptions"], job["maxPricePerHour"],
			job["onDemandOnly"], job["late"]})
		require.NotNil(t, job["finishBy"])
		require.Equal(t, "ENTERPRISE", job["tier"])
		require.Equal(t, "WAITING", at[string](t, job, "progress", "phase"))
		require.Equal(t, string(a.Account.ID), at[string](t, job, "account", "id"))
		require.Contains(t, at[map[string]any](t, job, "params"), "resolution", "the defaults are filled in")
		for _, absent := range []string{"userId", "failureClass", "failureReason", "cancellation", "result", "latestCheckpoint", "runAt",
			"expiresAt", "startedAt"} {
			require.Nil(t, job[absent], absent)
		}
	})

	t.Run("ReusesTheResultOfAnEqualJob", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		in := map[string]any{"model": "testcard", "prompt": "fog", "params": map[string]any{"durationSeconds": 1}}
		const again = `mutation ($i: SubmitJobInput!) { submitJob(input: $i) { job { status reusedFrom progress { percent } attemptNo result { id } } } }`
		const guess = `query ($i: SubmitJobInput!) { estimate(input: $i) { reusedFrom position waitSeconds } }`
		require.Nil(t, at[map[string]any](t, a.client(t, again, map[string]any{"i": in}), "submitJob", "job")["reusedFrom"])
		first := jobstest.CompleteNext(t, a.Stack, a.Worker(t, "one"))
		in["reuse"] = true

		forecast := at[map[string]any](t, a.client(t, guess, map[string]any{"i": in}), "estimate")
		job := at[map[string]any](t, a.client(t, again, map[string]any{"i": in}), "submitJob", "job")

		require.Equal(t, map[string]any{"reusedFrom": string(first.ID), "position": 0.0, "waitSeconds": 0.0}, forecast)
		require.Equal(t, []any{"COMPLETED", string(first.ID), 0.0}, []any{job["status"], job["reusedFrom"], job["attemptNo"]})
		require.NotNil(t, job["result"])
	})

	t.Run("SaysThatADeadlineCannotBeMet", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Worker(t, "one")
		require.NoError(t, a.Estimates.Refresh(t.Context()))
		submit := func(finishBy time.Time) map[string]any {
			return a.client(t, `mutation ($i: SubmitJobInput!) { submitJob(input: $i) { deadline { ...d } job { deadline { ...d } } } }
				fragment d on Deadline { finishBy feasible earliestFinish }`, map[string]any{"i": map[string]any{
				"model": "testcard", "prompt": "x", "params": map[string]any{"durationSeconds": 60}, "finishBy": finishBy}})
		}

		soon := time.Now().Add(time.Second)
		data := submit(soon)
		for _, path := range [][]any{{"submitJob", "deadline"}, {"submitJob", "job", "deadline"}} {
			said := at[map[string]any](t, data, path...)
			require.Equal(t, false, said["feasible"])
			earliest, err := time.Parse(time.RFC3339, said["earliestFinish"].(string))
			require.NoError(t, err)
			require.True(t, earliest.After(soon))
		}
		require.Equal(t, true, at[map[string]any](t, submit(soon.Add(24*time.Hour)), "submitJob", "deadline")["feasible"])
	})

	t.Run("ReturnsTheSubmittedTimes", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		due, expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second), time.Now().Add(2*time.Hour).UTC().Truncate(time.Second)

		data := a.client(t, submitAs, map[string]any{"i": map[string]any{"model": "testcard", "prompt": "x", "runAt": due, "expiresAt": expires}})

		for field, given := range map[string]time.Time{"runAt": due, "expiresAt": expires} {
			shown, err := time.Parse(time.RFC3339, at[string](t, data, "submitJob", "job", field))
			require.NoError(t, err)
			require.True(t, given.Equal(shown), field)
		}
	})

	t.Run("NamesTheErrorAndTheField", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		for field, input := range map[string]map[string]any{
			"prompt":                 {"model": "testcard", "prompt": "  "},
			"model":                  {"model": "nothing", "prompt": "x"},
			"params.durationSeconds": {"model": "testcard", "prompt": "x", "params": map[string]any{"durationSeconds": -1}},
			"priority":               {"model": "testcard", "prompt": "x", "priority": 101},
		} {
			got := ask(t, a.url, a.Secrets[access.RoleClient], submitAs, map[string]any{"i": input})

			require.Equal(t, []string{"INVALID_INPUT"}, got.codes(), field)
			require.Equal(t, field, got.Errors[0].Extensions["field"])
		}
	})
}

func TestJobs(t *testing.T) {
	t.Parallel()

	t.Run("ArePagedAndCounted", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		oldest, middle, newest := a.Submit(t), a.Submit(t), a.Submit(t)
		const query = `query ($after: String) { jobs(first: 2, after: $after) { totalCount pageInfo { hasNextPage endCursor } edges { cursor node { id } } } }`

		first := a.client(t, query, nil)
		second := a.client(t, query, map[string]any{"after": at[string](t, first, "jobs", "pageInfo", "endCursor")})

		require.EqualValues(t, 3, at[float64](t, first, "jobs", "totalCount"))
		require.True(t, at[bool](t, first, "jobs", "pageInfo", "hasNextPage"))
		require.Equal(t, string(newest.ID), at[string](t, first, "jobs", "edges", 0, "node", "id"))
		require.Equal(t, string(middle.ID), at[string](t, first, "jobs", "edges", 1, "node", "id"))
		require.False(t, at[bool](t, second, "jobs", "pageInfo", "hasNextPage"))
		require.Equal(t, string(oldest.ID), at[string](t, second, "jobs", "edges", 0, "node", "id"))
	})

	t.Run("RefuseInvalidPages", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)

		for field, arguments := range map[string][]string{"first": {"first: 0", "first: -1", "first: 201", "first: 10000", "first: 2147483648"},
			"after": {`after: "x"`}} {
			for _, argument := range arguments {
				got := ask(t, a.url, a.Secrets[access.RoleClient], "{ jobs("+argument+") { totalCount } }", nil)

				require.Equal(t, []string{"INVALID_INPUT"}, got.codes(), argument)
				require.Equal(t, field, got.Errors[0].Extensions["field"])
			}
		}
		for _, argument := range []string{"first: 1e2", `first: "1"`, "first: 1, last: 1", "last: 1"} {
			got := ask(t, a.url, a.Secrets[access.RoleClient], "{ jobs("+argument+") { totalCount } }", nil)

			require.Equal(t, "GRAPHQL_VALIDATION_FAILED", got.codes()[0], argument)
		}
	})

	t.Run("ReadTheirEdgesInOneBatch", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		const n = 30
		for range n {
			a.Submit(t)
		}
		counted := &queryCount{table: "job_attempts"}
		a.ReadOver(a.DB.WithQueryHook(counted))
		a.url = serve(t, a.Stack)

		data := a.client(t, `{ jobs { edges { node { prompt attempts { id } artifacts { id } account { id } } } } }`, nil)

		require.Len(t, at[[]any](t, data, "jobs", "edges"), n)
		require.Less(t, counted.n.Load(), int32(n/3))
		require.Equal(t, "a lighthouse in the fog", at[string](t, data, "jobs", "edges", 7, "node", "prompt"))
	})
}

// queryCount counts the queries that name a table.
type queryCount struct {
	table string
	n     atomic.Int32
}

func (c *queryCount) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (c *queryCount) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if strings.Contains(e.Query, c.table) {
		c.n.Add(1)
	}
}

func TestTenancy(t *testing.T) {
	t.Parallel()

	t.Run("HidesRowsOfOtherAccounts", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		lease, _ := a.Lease(t, a.Worker(t, "i-1"))
		a.NewKey(t, a.Account, access.RoleClient)
		stranger := a.NewAccount(t, "stranger", models.TierFree)
		_, key, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: stranger.ID, Role: access.RoleClient, Name: "stranger's"})
		require.NoError(t, err)

		for _, query := range []string{
			`query ($id: ID!) { job(id: $id) { id } }`,
			`mutation ($id: ID!) { cancelJob(id: $id) { id } }`,
			`query ($id: ID!) { node(id: $id) { id } }`,
		} {
			foreign := ask(t, a.url, key, query, map[string]any{"id": job.ID})
			unknown := ask(t, a.url, key, query, map[string]any{"id": models.NewJobID()})

			require.Equal(t, []string{"NOT_FOUND"}, foreign.codes())
			require.Equal(t, unknown.Errors, foreign.Errors, "nothing tells them apart")
		}
		for _, id := range []any{lease.Attempt.ID, lease.Attempt.WorkerID, a.Account.ID, models.NewPoolID(), a.Client.KeyID, "x"} {
			got := ask(t, a.url, key, `query ($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": id})

			require.Equal(t, []string{"NOT_FOUND"}, got.codes(), "%v", id)
		}
		mine := ask(t, a.url, key, `{ jobs { totalCount } }`, nil)
		require.Zero(t, at[float64](t, mine.Data, "jobs", "totalCount"))
	})

	t.Run("LetsNodeFindOnlyVisibleRows", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		lease, _ := a.Lease(t, a.Worker(t, "i-1"))

		for kind, id := range map[string]any{"Job": job.ID, "Attempt": lease.Attempt.ID, "Worker": lease.Attempt.WorkerID,
			"Account": a.Account.ID} {
			data := a.client(t, `query ($id: ID!) { node(id: $id) { __typename id } }`, map[string]any{"id": id})

			require.Equal(t, kind, at[string](t, data, "node", "__typename"))
		}
	})

	t.Run("ShowsClientsLittleOfAWorker", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		a.Lease(t, a.Worker(t, "i-1"))
		vars := map[string]any{"id": job.ID}

		data := a.client(t, `query ($id: ID!) { job(id: $id) { attempts { worker {
			id region gpuType status pool { id } zone currentJob { id } registeredAt gpuUtilization } } } }`, vars)
		refused := ask(t, a.url, a.Secrets[access.RoleClient],
			`query ($id: ID!) { job(id: $id) { attempts { worker { id providerInstanceId } } } }`, vars)
		whole := a.as(t, access.RoleOperator,
			`query ($id: ID!) { job(id: $id) { attempts { worker { providerInstanceId registeredAt currentJob { id } } } } }`, vars)

		worker := at[map[string]any](t, data, "job", "attempts", 0, "worker")
		require.Equal(t, "local", worker["region"])
		require.Equal(t, "BUSY", worker["status"])
		for _, hidden := range []string{"pool", "zone", "currentJob", "registeredAt", "gpuUtilization"} {
			require.Nil(t, worker[hidden], hidden)
		}
		require.Equal(t, []string{"FORBIDDEN"}, refused.codes())
		require.Equal(t, "i-1", at[string](t, whole, "job", "attempts", 0, "worker", "providerInstanceId"))
		require.Equal(t, string(job.ID), at[string](t, whole, "job", "attempts", 0, "worker", "currentJob", "id"))
	})
}

func TestReads(t *testing.T) {
	t.Parallel()

	t.Run("ReturnTheKeysAccountAndRole", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		_, token := a.worker(t, "i-1")

		client := a.client(t, `{ viewer { role account { name } } }`, nil)
		worker := ask(t, a.url, token, `{ viewer { role account { name } } }`, nil)

		require.Equal(t, "client", at[string](t, client, "viewer", "account", "name"))
		require.Empty(t, worker.Errors)
		require.Equal(t, map[string]any{"role": "WORKER", "account": nil}, worker.Data["viewer"])
	})

	t.Run("ReturnTheSameStateAloneAndWithTheWholeJob", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		worker := a.Worker(t, "i-1")
		_, fence := a.Lease(t, worker)
		_, err := a.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{Progress: models.Progress{
			Phase: models.PhaseRendering, Percent: 40, Message: "frame by frame",
			Step: new(4), TotalSteps: new(10), Frame: new(7), TotalFrames: new(12), ETASeconds: new(2.5),
		}})
		require.NoError(t, err)
		const state = `__typename id status progress { percent phase message step totalSteps frame totalFrames etaSeconds updatedAt }`
		statements := countReads(t, a.Stack)
		ask := func(fields string, more bool) map[string]any {
			data := a.client(t, `query ($id: ID!, $more: Boolean!) { job(id: $id) { __typename @include(if: $more) `+fields+` } }`,
				map[string]any{"id": job.ID, "more": more})
			return at[map[string]any](t, data, "job")
		}

		alone := ask(state, false)
		require.NotContains(t, *statements.last.Load(), "params", "no more is read")
		whole := ask(state+" model @include(if: $more)", true)
		require.Contains(t, *statements.last.Load(), "params")
		skipped := ask(state+" model @include(if: $more)", false)
		mixed := ask("... on Job { "+state+" more: model }", false)
		disguised := ask("status: model", false)
		node := ask("... on Node { id }", false)

		require.Equal(t, 40., at[float64](t, alone, "progress", "percent"))
		for field, value := range at[map[string]any](t, alone, "progress") {
			require.NotNil(t, value, field)
		}
		require.Equal(t, alone, skipped)
		require.Equal(t, "testcard", mixed["more"])
		require.Equal(t, "testcard", disguised["status"])
		require.Equal(t, string(job.ID), node["id"])
		require.Equal(t, "testcard", whole["model"])
		delete(mixed, "more")
		delete(whole, "model")
		require.Equal(t, alone, whole)
		require.Equal(t, alone, mixed)
	})

	t.Run("ShowTheFleetOnlyToOperators", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Submit(t)
		id, _ := a.worker(t, "i-1")
		pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{
			Name: "local", Provider: "local", Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 2,
		}}
		require.NoError(t, capacity.UpsertPool(t.Context(), a.DB, pool))
		const query = `{
			queues { tier model depth running oldestWaitSeconds }
			pools { id name desired idle scalingHistory { at reason } }
			workers { totalCount edges { node { id status zone pool { id } currentJob { id } } } }
			models { name available paramsSchema gpuTypes } }`

		data := a.as(t, access.RoleOperator, query, nil)
		refused := ask(t, a.url, a.Secrets[access.RoleClient], query, nil)

		require.EqualValues(t, 1, at[float64](t, data, "queues", 0, "depth"))
		require.Equal(t, "local", at[string](t, data, "pools", 0, "name"))
		require.Equal(t, id, at[string](t, data, "workers", "edges", 0, "node", "id"))
		require.EqualValues(t, 1, at[float64](t, data, "workers", "totalCount"))
		require.Nil(t, at[map[string]any](t, data, "workers", "edges", 0, "node")["zone"])
		require.True(t, at[bool](t, data, "models", 0, "available"))
		require.Equal(t, []string{"FORBIDDEN", "FORBIDDEN", "FORBIDDEN"}, refused.codes())
	})
}
