package graph_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/schedule"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/budgets"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// willing is a provider that does what it is asked.
type willing struct{ fleet.Provider }

func (willing) Preempt(context.Context, *capacity.Pool, fleet.Instance, time.Duration) error {
	return nil
}

func (willing) Delete(context.Context, *capacity.Pool, []fleet.Instance) map[string]error { return nil }

// act prepares the object of an operator's mutation, and returns the mutation's arguments and
// selection.
type act func(t *testing.T, a *api) string

func onID[T ~string](id T) string { return fmt.Sprintf("(id: %q) { id }", id) }

func onWorker(t *testing.T, a *api) string {
	t.Helper()
	worker := a.Worker(t, "i-1").WorkerID
	a.Exec(t, "UPDATE workers SET pool_id = ?", jobstest.AddPool(t, a.Stack, 0, 1).ID)
	return onID(worker)
}

func onPool(t *testing.T, a *api) string {
	t.Helper()
	return onID(jobstest.AddPool(t, a.Stack, 0, 1).ID)
}

const poolInput = `input: {name: "fakes", provider: "fake", region: "here", gpuType: "any", models: ["testcard"], maxWorkers: 3}`

func onDeadLetter(t *testing.T, a *api) string {
	t.Helper()
	a.fail(t, a.Worker(t, "i-1"), "a face")
	return onID(at[string](t, a.as(t, access.RoleOperator, deadLetters, nil), "deadLetters", "edges", 0, "node", "id"))
}

func onMember(t *testing.T, a *api) string {
	t.Helper()
	p, _ := a.NewMember(t, "ana@example.com", access.RoleViewer)
	return onID(p.Member.ID)
}

func onBulk(t *testing.T, a *api) string {
	t.Helper()
	a.Submit(t)
	started := a.as(t, access.RoleOperator, `mutation { startBulkOperation(action: CANCEL, filter: {}) { id } }`, nil)
	return onID(at[string](t, started, "startBulkOperation", "id"))
}

// endpoint creates a webhook endpoint of the client.
func (a *api) endpoint(t *testing.T) string {
	t.Helper()
	made := a.client(t, `mutation { createWebhookEndpoint(url: "https://example.com/told") { endpoint { id } } }`, nil)
	return at[string](t, made, "createWebhookEndpoint", "endpoint", "id")
}

func onEnded(t *testing.T, a *api) string {
	t.Helper()
	job, err := a.Canceller.Cancel(t.Context(), a.Client, a.Submit(t).ID)
	require.NoError(t, err)
	return onID(job.ID)
}

func onDraft(t *testing.T, a *api) string {
	draft := jobstest.SubmitAs(t, a.Stack, a.Client, func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} })
	jobstest.FinishDraft(t, a.Stack, a.Worker(t, "one"), draft)
	return fmt.Sprintf("(id: %q) { job { id } }", draft.ID)
}

// onSchedule acts on a client's schedule.
func onSchedule(more, fields string) act {
	return func(t *testing.T, a *api) string {
		s, err := a.Schedules.Create(t.Context(), a.Client, schedule.Input{Name: "news", EverySeconds: 3600,
			Request: schedule.Request{Job: &submit.Submission{Model: "testcard", Prompt: "x"}}})
		require.NoError(t, err)
		return fmt.Sprintf("(id: %q%s) %s", s.ID, more, fields)
	}
}

// onWorkflow acts on a client's workflow of two nodes, which may be cancelled.
func onWorkflow(cancelled bool, more string) act {
	return func(t *testing.T, a *api) string {
		w := a.SubmitWorkflow(t, a.Client, "film", "s1", "s2")
		if cancelled {
			_, err := a.Workflows.Cancel(t.Context(), a.Client, w.ID, "")
			require.NoError(t, err)
		}
		return fmt.Sprintf("(id: %q%s) { id }", w.ID, more)
	}
}

// onApproval answers a node of a client's workflow.
func onApproval(more string) act {
	return func(t *testing.T, a *api) string {
		return fmt.Sprintf("(id: %q%s) { id }", a.AskApproval(t, a.Client).ID, more)
	}
}

// onEngine acts on an engine that an operator holds, or not.
func onEngine(held bool) act {
	return func(t *testing.T, a *api) string {
		const url = "http://gpu-1:8188"
		pool, err := a.Pools.Create(t.Context(), a.Admin, capacity.PoolSpec{Name: "comfy", Provider: engine.Provider, EngineKind: engine.ComfyUI,
			Engines: []string{url}})
		require.NoError(t, err)
		if held {
			require.NoError(t, a.Engines.Hold(t.Context(), a.Admin, pool.ID, url))
		}
		return fmt.Sprintf("(pool: %q, url: %q) { url }", pool.ID, url)
	}
}

// kling makes a pool of a hosted provider that serves the testcard.
func kling(t *testing.T, a *api) *capacity.Pool {
	t.Helper()
	pool, err := a.Pools.Create(t.Context(), a.Admin, capacity.PoolSpec{Name: "kling", Provider: engine.Provider, EngineKind: "kling",
		Models: []string{"testcard"}})
	require.NoError(t, err)
	return pool
}

func plain(arguments string) act { return func(*testing.T, *api) string { return arguments } }

// acts are the mutations by which operators act on objects of other accounts.
var acts = map[string]act{
	"pauseQueue":      plain("(tier: PRO) { tier }"),
	"resumeQueue":     plain("(tier: PRO) { tier }"),
	"halt":            plain(`(what: [SCHEDULES, LEASES], reason: "a migration") { what }`),
	"resume":          plain("(what: [LEASES]) { what }"),
	"setJobTier":      func(t *testing.T, a *api) string { return fmt.Sprintf("(id: %q, tier: PRO) { id }", a.Submit(t).ID) },
	"setJobPriority":  func(t *testing.T, a *api) string { return fmt.Sprintf("(id: %q, priority: 7) { id }", a.Submit(t).ID) },
	"drainWorker":     onWorker,
	"terminateWorker": onWorker,
	"preemptWorker":   onWorker,
	"quarantineWorker": func(t *testing.T, a *api) string {
		return fmt.Sprintf(`(id: %q, minutes: 5, reason: "loud") { id }`, a.Worker(t, "one").WorkerID)
	},
	"acknowledgeAlert": func(t *testing.T, a *api) string { return onID(a.FireAlert(t)) },
	"silenceAlerts": func(*testing.T, *api) string {
		return `(rule: "queue-depth", minutes: 5, reason: "a batch runs") { id }`
	},
	"endSilence": func(t *testing.T, a *api) string {
		s, err := a.Alerts.Silence(t.Context(), a.Admin, "", 5, "a deploy")
		require.NoError(t, err)
		return onID(s.ID)
	},
	"testAlertRoute": func(*testing.T, *api) string { return `(name: "nowhere")` },
	"releaseQuarantine": func(t *testing.T, a *api) string {
		id := a.Worker(t, "one").WorkerID
		_, err := a.Fleet.QuarantineWorker(t.Context(), a.Admin, id, 5, "loud")
		require.NoError(t, err)
		return onID(id)
	},
	"createPool": plain("(" + poolInput + ") { id }"),
	"updatePool": func(t *testing.T, a *api) string {
		return fmt.Sprintf("(id: %q, %s) { id }", jobstest.AddPool(t, a.Stack, 0, 1).ID, poolInput)
	},
	"pausePool": onPool,
	"resumePool": func(t *testing.T, a *api) string {
		pool := jobstest.AddPool(t, a.Stack, 0, 1).ID
		_, err := a.Pools.Pause(t.Context(), a.Admin, pool)
		require.NoError(t, err)
		return onID(pool)
	},
	"deletePool": func(t *testing.T, a *api) string {
		return fmt.Sprintf("(id: %q)", jobstest.AddPool(t, a.Stack, 0, 1).ID)
	},
	"holdEngine":           onEngine(false),
	"resumeEngine":         onEngine(true),
	"applyPools":           plain(`(input: {source: "pools: [{name: own, provider: fake, region: here, gpuType: any, models: [testcard], maxWorkers: 1}]"}) { name }`),
	"importProviderPrices": plain(`(input: {source: "prices: [{provider: veo, model: m, since: 2026-01-01, rules: [{perCallUsd: 1}]}]"}) { added }`),
	"redriveDeadLetter":    onDeadLetter,
	"discardDeadLetter":    onDeadLetter,
	"discardDeadLetters": func(t *testing.T, a *api) string {
		onDeadLetter(t, a)
		return fmt.Sprintf("(fingerprint: %q)", at[string](t, a.as(t, access.RoleOperator, deadLetters, nil), "deadLetters", "edges", 0, "node",
			"fingerprint"))
	},
	"redriveDeadLetters": plain(""),
	"saveView":           plain(`(name: "Stuck", query: "status=RUNNING") { id }`),
	"deleteView": func(t *testing.T, a *api) string {
		saved := a.as(t, access.RoleOperator, `mutation { saveView(name: "Stuck", query: "", shared: true) { id } }`, nil)
		return fmt.Sprintf("(id: %q)", at[string](t, saved, "saveView", "id"))
	},
	"updateSchedule":         onSchedule(`, input: {name: "news", everySeconds: 60, job: {model: "testcard", prompt: "x"}}`, "{ id }"),
	"pauseSchedule":          onSchedule("", "{ id }"),
	"resumeSchedule":         onSchedule("", "{ id }"),
	"fireSchedule":           onSchedule("", "{ at }"),
	"fireSlots":              onSchedule(`, from: "2026-01-01T00:00:00Z", to: "2026-01-02T00:00:00Z"`, "{ at }"),
	"deleteSchedule":         onSchedule("", ""),
	"cancelWorkflow":         onWorkflow(false, ""),
	"retryWorkflow":          onWorkflow(true, ""),
	"skipWorkflowJob":        onWorkflow(false, `, key: "s1"`),
	"overrideDependency":     onWorkflow(false, `, key: "s2", parent: "s1"`),
	"approveWorkflowJob":     onApproval(`, key: "pick", pick: "a"`),
	"rejectWorkflowJob":      onApproval(`, key: "pick", note: "too dark"`),
	"startBulkOperation":     plain("(action: CANCEL, filter: {}) { id }"),
	"pauseBulkOperation":     onBulk,
	"resumeBulkOperation":    onBulk,
	"cancelBulkOperation":    onBulk,
	"cancelJob":              func(t *testing.T, a *api) string { return onID(a.Submit(t).ID) },
	"retryJob":               onEnded,
	"deleteJob":              onEnded,
	"continueJob":            onDraft,
	"deleteWebhookEndpoint":  func(t *testing.T, a *api) string { return fmt.Sprintf("(id: %q)", a.endpoint(t)) },
	"enableWebhookEndpoint":  func(t *testing.T, a *api) string { return onID(a.endpoint(t)) },
	"disableWebhookEndpoint": func(t *testing.T, a *api) string { return onID(a.endpoint(t)) },
	"sendTestWebhook":        func(t *testing.T, a *api) string { return fmt.Sprintf("(endpointId: %q) { id }", a.endpoint(t)) },
	"redeliverWebhook": func(t *testing.T, a *api) string {
		a.endpoint(t)
		onEnded(t, a)
		told := a.client(t, `{ webhookDeliveries { edges { node { id } } } }`, nil)
		return fmt.Sprintf("(deliveryId: %q) { id }", at[string](t, told, "webhookDeliveries", "edges", 0, "node", "id"))
	},
	"resetProvider": func(t *testing.T, a *api) string {
		return fmt.Sprintf("(poolId: %q) { id }", kling(t, a).ID)
	},
	"decideSubmit": func(t *testing.T, a *api) string {
		pool := kling(t, a)
		job := a.Submit(t)
		worker, _, err := a.Registrar.Register(t.Context(), a.Enrolment, fleet.Registration{Provider: engine.Provider,
			ProviderInstanceID: "kling@kling#a", GPUCount: 1, PoolID: pool.ID, Region: "local", GPUType: "any",
			CapacityClass: models.CapacityOnDemand, AgentVersion: "test"})
		require.NoError(t, err)
		p := jobs.Principal{Role: access.RoleWorker, AccountID: a.Enrolment.AccountID, KeyID: a.Enrolment.KeyID, WorkerID: worker.ID}
		_, fence := a.Lease(t, p)
		_, err = a.Attempts.Fail(t.Context(), p, fence, lease.Failure{Class: models.FailSubmitUnknown, Message: "It was not answered."})
		require.NoError(t, err)
		return fmt.Sprintf("(id: %q, decision: GIVE_UP) { id }", job.ID)
	},
	"updateAccount": func(_ *testing.T, a *api) string {
		return fmt.Sprintf("(id: %q, input: {maxRunning: 3}) { id }", a.Account.ID)
	},
	"setBudget": func(_ *testing.T, a *api) string {
		return fmt.Sprintf("(input: {accountId: %q, period: MONTH, limitUsd: 9}) { id }", a.Account.ID)
	},
	"removeBudget": func(t *testing.T, a *api) string {
		set, err := a.Budgets.Set(t.Context(), a.Admin, budget.Input{AccountID: a.Account.ID, Period: budgets.PerDay})
		require.NoError(t, err)
		return fmt.Sprintf("(id: %q)", set.ID)
	},
	"deleteAccount": func(t *testing.T, a *api) string {
		closed := a.NewAccount(t, "closed", models.TierFree)
		return fmt.Sprintf("(id: %q, name: %q) { accountId }", closed.ID, closed.Name)
	},
	"applyModels": plain(`(input: {source: "models: [{name: own, type: x, gpuTypes: [any], timeoutSeconds: 1, gpuSecondsPerSecond: 1, params: {}}]"}) { name }`),
	"removeModel": func(t *testing.T, a *api) string {
		a.SeedCatalogue(t)
		return `(name: "drill")`
	},
	"restoreModel": func(t *testing.T, a *api) string {
		a.SeedCatalogue(t)
		require.NoError(t, a.Registry.Remove(t.Context(), a.Admin, "drill", false))
		return `(name: "drill") { version }`
	},
	"createAccount": plain(`(input: {name: "acme", tier: PRO}) { id }`),
	"createApiKey": func(_ *testing.T, a *api) string {
		return fmt.Sprintf("(accountId: %q, role: CLIENT, name: \"new\") { id }", a.Account.ID)
	},
	"createMember": plain(`(email: "new@example.com", role: VIEWER) { expiresAt }`),
	"updateMember": func(t *testing.T, a *api) string {
		p, _ := a.NewMember(t, "ana@example.com", access.RoleViewer)
		return fmt.Sprintf("(id: %q, role: OPERATOR) { id }", p.Member.ID)
	},
	"disableMember":       onMember,
	"enableMember":        onMember,
	"resetMemberPassword": func(t *testing.T, a *api) string { return strings.Replace(onMember(t, a), "{ id }", "{ url }", 1) },
	"revokeApiKey":        func(_ *testing.T, a *api) string { return fmt.Sprintf("(id: %q)", a.Client.KeyID) },
}

// ownActs are the other mutations that operators may call: they affect only the caller's own
// objects.
var ownActs = []string{
	"submitJob", "submitJobs", "submitTakes", "createSchedule", "applySchedule", "submitWorkflow", "requestInputUpload",
	"createWebhookEndpoint", "createBucketEndpoint", "setBucketKeys", "rotateWebhookSecret", "rotateAccountWebhookSecret",
}

const newestAct = `{ auditLog(first: 1) { edges { node { at actor keyId action target targetName details payload } } } }`

func TestAuditLog(t *testing.T) {
	t.Parallel()

	t.Run("HasARowForEveryMutationOfOperators", func(t *testing.T) {
		t.Parallel()

		for _, field := range graph.NewExecutableSchema(graph.Config{}).Schema().Mutation.Fields {
			role := access.RoleClient
			if given := field.Directives.ForName("auth").Arguments.ForName("role"); given != nil {
				role = access.Role(given.Value.Raw)
			}
			if role == access.RoleWorker {
				continue
			}
			prepare, known := acts[field.Name]
			if !known {
				require.Contains(t, ownActs, field.Name,
					"write down what %s does (Principal.audit), and add it to acts; or to ownActs, if it is about the caller's own rows alone", field.Name)
				require.Equal(t, access.RoleClient, role, "%s is for operators", field.Name)
				continue
			}
			if role == access.RoleClient {
				role = access.RoleOperator
			}
			t.Run(field.Name, func(t *testing.T) {
				t.Parallel()

				a := newAPI(t)
				a.Fleet.Providers["static"] = willing{}
				mutation := fmt.Sprintf("mutation { %s%s }", field.Name, prepare(t, a))
				before := a.Count(t, "audit_log")

				a.as(t, role, mutation, nil)

				require.Equal(t, before+1, a.Count(t, "audit_log"))
				row := at[map[string]any](t, a.as(t, access.RoleAdmin, newestAct, nil), "auditLog", "edges", 0, "node")
				require.Equal(t, field.Name, row["action"])
				require.Equal(t, "test "+string(role), row["actor"])
				require.NotEmpty(t, row["keyId"])
				require.Equal(t, "127.0.0.1", at[string](t, row, "payload", "address"))
				require.NotEmpty(t, row["target"])
				if strings.HasPrefix(fmt.Sprint(row["target"]), "key_") {
					require.NotNil(t, row["targetName"])
				}
				a.requireNoSecrets(t)
			})
		}
	})

	t.Run("HasNoRowForClientsActionsOnTheirOwnJobs", func(t *testing.T) {
		t.Parallel()

		for _, mutation := range []string{"cancelJob", "retryJob", "deleteJob", "startBulkOperation"} {
			a := newAPI(t)
			call := fmt.Sprintf("mutation { %s%s }", mutation, acts[mutation](t, a))
			before := a.Count(t, "audit_log")

			a.client(t, call, nil)

			require.Equal(t, before, a.Count(t, "audit_log"), mutation)
		}
	})

	t.Run("IsReadableByAdminsOnly", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for _, tier := range []string{"PRO", "FREE", "PRO"} {
			a.as(t, access.RoleOperator, fmt.Sprintf("mutation { pauseQueue(tier: %s) { tier } }", tier), nil)
		}
		const search = `query ($after: String) { auditLog(target: "PRO", first: 1, after: $after) {
			edges { cursor node { action target payload } } pageInfo { hasNextPage endCursor } } }`

		first := a.as(t, access.RoleAdmin, search, nil)
		require.True(t, at[bool](t, first, "auditLog", "pageInfo", "hasNextPage"))
		second := a.as(t, access.RoleAdmin, search, map[string]any{"after": at[string](t, first, "auditLog", "pageInfo", "endCursor")})

		require.False(t, at[bool](t, second, "auditLog", "pageInfo", "hasNextPage"))
		require.Equal(t, "PRO", at[string](t, second, "auditLog", "edges", 0, "node", "target"))
		require.NotEqual(t, at[string](t, first, "auditLog", "edges", 0, "cursor"), at[string](t, second, "auditLog", "edges", 0, "cursor"))
		for _, role := range []access.Role{access.RoleClient, access.RoleOperator, access.RoleWorker} {
			require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, a.Secrets[role], newestAct, nil).codes(), role)
		}
		for _, bad := range []string{"x", base64.RawURLEncoding.EncodeToString([]byte("after:" + string(models.NewAuditID())))} {
			require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, a.Secrets[access.RoleAdmin], search, map[string]any{"after": bad}).codes(),
				bad)
		}
	})
}

// requireNoSecrets fails the test if the audit log contains a prompt or a secret.
func (a *api) requireNoSecrets(t *testing.T) {
	t.Helper()
	var log string
	require.NoError(t, a.DB.NewRaw("SELECT coalesce(string_agg(l::text, ' '), '') FROM audit_log l").Scan(t.Context(), &log))
	require.NotContains(t, log, "lighthouse")
	require.NotRegexp(t, jobstest.SecretPattern, log)
}
