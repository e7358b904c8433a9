package graph_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

const createHook = `mutation ($u: String!, $e: [String!]) { createWebhookEndpoint(url: $u, events: $e) {
	secret endpoint { id url format events disabled disabledAt disabledReason createdAt } } }`

const submitCalledBack = `mutation ($u: String) { submitJob(input: {model: "testcard", prompt: "a fox", callbackUrl: $u}) { job { id callbackUrl } } }`

func TestWebhooks(t *testing.T) {
	t.Parallel()

	t.Run("AreCreatedDeliveredListedAndRedelivered", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		type webhook struct {
			header http.Header
			body   []byte
		}
		got := make(chan webhook, 10)
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- webhook{r.Header, body}
		}))
		defer receiver.Close()
		made := a.client(t, createHook, map[string]any{"u": receiver.URL})
		endpoint := at[string](t, made, "createWebhookEndpoint", "endpoint", "id")
		account := a.client(t, `mutation { rotateAccountWebhookSecret }`, nil)
		submitted := a.client(t, submitCalledBack, map[string]any{"u": receiver.URL + "/back"})
		job := at[string](t, submitted, "submitJob", "job", "id")
		require.Equal(t, receiver.URL+"/back", at[string](t, submitted, "submitJob", "job", "callbackUrl"))
		a.client(t, `mutation ($id: ID!) { cancelJob(id: $id) { id } }`, map[string]any{"id": job})

		_, err := a.Deliverer.Pass(t.Context())

		require.NoError(t, err)
		verified := 0
		for range 2 {
			w := <-got
			for _, secret := range []string{at[string](t, made, "createWebhookEndpoint", "secret"),
				at[string](t, account, "rotateAccountWebhookSecret")} {
				verifier, err := standardwebhooks.NewWebhook(secret)
				require.NoError(t, err)
				if verifier.Verify(w.body, w.header) == nil {
					verified++
				}
			}
		}
		require.Equal(t, 2, verified, "each by its own secret")
		list := a.client(t, `query ($j: ID, $e: ID) { webhookEndpoints { id events format disabled }
			webhookDeliveries(jobId: $j, endpointId: $e, first: 1) { pageInfo { hasNextPage endCursor } edges { cursor node {
				id jobId run eventId event url attempts delivered lastStatusCode lastError nextAttemptAt createdAt deliveredAt
				tries { at statusCode error durationMs } } } }
			failed: webhookDeliveries(jobId: $j, failedOnly: true) { edges { cursor } } }`, map[string]any{"j": job, "e": endpoint})
		require.Equal(t, []any{map[string]any{"id": endpoint, "format": "STANDARD", "disabled": false,
			"events": []any{"job.completed", "job.failed", "job.cancelled", "workflow.completed", "workflow.failed", "workflow.cancelled",
				"workflow.approval_requested", "budget.reached"}}},
			list["webhookEndpoints"])
		require.Empty(t, at[[]any](t, list, "failed", "edges"))
		node := at[map[string]any](t, list, "webhookDeliveries", "edges", 0, "node")
		require.Equal(t, "job.cancelled", node["event"])
		require.Equal(t, true, node["delivered"])
		require.EqualValues(t, 200, node["lastStatusCode"])
		require.Nil(t, node["lastError"])
		require.Nil(t, node["nextAttemptAt"])
		require.Len(t, node["tries"], 1)
		require.EqualValues(t, 200, at[float64](t, node, "tries", 0, "statusCode"))
		id := map[string]any{"id": node["id"]}
		again := a.client(t, `mutation ($id: ID!) { redeliverWebhook(deliveryId: $id) { id delivered nextAttemptAt } }`, id)
		require.NotNil(t, at[map[string]any](t, again, "redeliverWebhook")["nextAttemptAt"])
		rotated := a.client(t, `mutation ($id: ID!) { rotateWebhookSecret(id: $id) { secret endpoint { id } } }`, map[string]any{"id": endpoint})
		require.NotEqual(t, at[string](t, made, "createWebhookEndpoint", "secret"), at[string](t, rotated, "rotateWebhookSecret", "secret"))
		found := a.client(t, `query ($d: ID!, $e: ID!) { d: node(id: $d) { id } e: node(id: $e) { ... on WebhookEndpoint { url } } }`,
			map[string]any{"d": node["id"], "e": endpoint})
		require.Equal(t, receiver.URL, at[string](t, found, "e", "url"))
		gone := a.client(t, `mutation ($id: ID!) { deleteWebhookEndpoint(id: $id) }`, map[string]any{"id": endpoint})
		require.Equal(t, endpoint, gone["deleteWebhookEndpoint"])
		require.Equal(t, []string{"CONFLICT"}, ask(t, a.url, a.Secrets[access.RoleClient],
			`mutation ($id: ID!) { redeliverWebhook(deliveryId: $id) { id } }`, id).codes())
	})

	t.Run("AreHiddenFromOtherAccounts", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		made := a.client(t, createHook, map[string]any{"u": "https://example.com/hook", "e": []string{"job.failed", "job.cancelled"}})
		submitted := a.client(t, submitCalledBack, map[string]any{"u": "https://example.com/back"})
		a.client(t, `mutation ($id: ID!) { cancelJob(id: $id) { id } }`, map[string]any{"id": at[string](t, submitted, "submitJob", "job", "id")})
		own := a.client(t, `{ webhookDeliveries { edges { node { id } } } }`, nil)
		require.Len(t, at[[]any](t, own, "webhookDeliveries", "edges"), 2)
		delivery := at[string](t, own, "webhookDeliveries", "edges", 0, "node", "id")
		endpoint := at[string](t, made, "createWebhookEndpoint", "endpoint", "id")
		_, stranger, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "stranger", models.TierPro).ID,
			Role: access.RoleClient, Name: "stranger"})
		require.NoError(t, err)
		_, token := a.worker(t, "i-1")

		for id, queries := range map[string][]string{
			endpoint: {
				`query ($id: ID!) { node(id: $id) { id } }`, `mutation ($id: ID!) { rotateWebhookSecret(id: $id) { secret } }`,
				`mutation ($id: ID!) { deleteWebhookEndpoint(id: $id) }`, `mutation ($id: ID!) { enableWebhookEndpoint(id: $id) { id } }`,
				`mutation ($id: ID!) { disableWebhookEndpoint(id: $id) { id } }`,
			},
			delivery: {`query ($id: ID!) { node(id: $id) { id } }`, `mutation ($id: ID!) { redeliverWebhook(deliveryId: $id) { id } }`},
		} {
			for _, query := range queries {
				require.Equal(t, []string{"NOT_FOUND"}, ask(t, a.url, stranger, query, map[string]any{"id": id}).codes(), query)
				require.Equal(t, []string{"FORBIDDEN"}, ask(t, a.url, token, query, map[string]any{"id": id}).codes(), query)
			}
		}
		foreign := ask(t, a.url, stranger, `{ webhookEndpoints { id } webhookDeliveries { edges { node { id } } } }`, nil)
		require.Equal(t, map[string]any{"webhookEndpoints": []any{}, "webhookDeliveries": map[string]any{"edges": []any{}}}, foreign.Data)
		of := map[string]any{"a": string(a.Account.ID)}
		require.Equal(t, []string{"NOT_FOUND"}, ask(t, a.url, stranger, `query ($a: ID) { webhookEndpoints(accountId: $a) { id } }`, of).codes())
		require.Len(t, a.as(t, access.RoleOperator, `query ($a: ID) { webhookEndpoints(accountId: $a) { id } }`, of)["webhookEndpoints"], 1)
	})

	t.Run("RefuseInvalidInput", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		key := a.Secrets[access.RoleClient]
		for field, answer := range map[string]answer{
			"url":         ask(t, a.url, key, createHook, map[string]any{"u": "http://169.254.169.254/"}),
			"events":      ask(t, a.url, key, createHook, map[string]any{"u": "https://example.com/", "e": []string{"job.\r\nx: y"}}),
			"callbackUrl": ask(t, a.url, key, submitCalledBack, map[string]any{"u": "gopher://example.com/"}),
		} {
			require.Equal(t, []string{"INVALID_INPUT"}, answer.codes(), field)
			require.Equal(t, field, answer.Errors[0].Extensions["field"])
		}
		for _, query := range []string{`{ webhookDeliveries(jobId: "x") { edges { cursor } } }`,
			`{ webhookDeliveries(endpointId: "job_1") { edges { cursor } } }`} {
			require.Equal(t, []string{"NOT_FOUND"}, ask(t, a.url, key, query, nil).codes())
		}
		require.Equal(t, []string{"INVALID_INPUT"}, ask(t, a.url, key, `{ webhookDeliveries(after: "nonsense") { edges { cursor } } }`,
			nil).codes())
	})
}
