package graph_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const (
	createKey = `mutation ($a: ID!, $r: Role!, $n: String!, $e: Time) { createApiKey(accountId: $a, role: $r, name: $n, expiresAt: $e) { id secret role } }`
	listKeys  = `query ($a: ID) { apiKeys(accountId: $a) { id account { id } name role prefix createdAt lastUsedAt expiresAt revokedAt } }`
)

func TestApiKeys(t *testing.T) {
	t.Parallel()

	t.Run("AreCreatedListedAndRevoked", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		made := at[map[string]any](t, a.as(t, access.RoleAdmin, createKey, map[string]any{
			"a": a.Account.ID, "r": "CLIENT", "n": "production", "e": time.Now().Add(time.Hour),
		}), "createApiKey")
		secret := made["secret"].(string)
		require.Regexp(t, jobstest.SecretPattern, secret)
		role := at[string](t, ask(t, a.url, secret, "{ viewer { role } }", nil).Data, "viewer", "role")
		require.Equal(t, "CLIENT", role)

		key := at[map[string]any](t, a.as(t, access.RoleAdmin, listKeys, map[string]any{"a": a.Account.ID}), "apiKeys", 0)
		require.Equal(t, made["id"], key["id"])
		require.True(t, strings.HasPrefix(secret, key["prefix"].(string)))
		require.Len(t, key["prefix"], len("rl_live_")+4)
		require.NotNil(t, key["lastUsedAt"])
		require.NotNil(t, key["expiresAt"])
		require.Nil(t, key["revokedAt"])

		a.as(t, access.RoleAdmin, `mutation ($id: ID!) { revokeApiKey(id: $id) }`, map[string]any{"id": made["id"]})

		require.Equal(t, http.StatusUnauthorized, ask(t, a.url, secret, "{ viewer { role } }", nil).status)
		require.NotNil(t, at[any](t, a.as(t, access.RoleAdmin, listKeys, nil), "apiKeys", 0, "revokedAt"))
	})

	t.Run("AreForAdminsOnly", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for _, role := range []access.Role{access.RoleClient, access.RoleOperator, access.RoleWorker} {
			for name, query := range map[string]string{"create": createKey, "list": listKeys,
				"revoke": `mutation ($a: ID!) { revokeApiKey(id: $a) }`} {
				got := ask(t, a.url, a.Secrets[role], query, map[string]any{"a": a.Account.ID, "r": "ADMIN", "n": "mine"})

				require.Equal(t, []string{"FORBIDDEN"}, got.codes(), "%s %s", role, name)
			}
		}
	})

	t.Run("EndTheirStreamsOnEveryReplica", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		other := &api{a.Stack, serve(t, a.Stack)}
		job := a.Submit(t)
		var open []*socket
		for _, replica := range []*api{a, a, other} { // two of them share one check
			s := dial(t, replica.url, a.Secrets[access.RoleClient])
			require.Equal(t, "connection_ack", s.next().Type)
			s.send("subscribe", "1", map[string]any{"query": watchJob, "variables": map[string]any{"id": job.ID}})
			require.Equal(t, "next", s.next().Type)
			open = append(open, s)
		}
		events := other.events(t, job.ID)
		for !strings.Contains(events.Text(), `"status":"QUEUED"`) {
			require.True(t, events.Scan(), "the stream ended")
		}
		bystander := dial(t, other.url, a.Secrets[access.RoleOperator])
		require.Equal(t, "connection_ack", bystander.next().Type)

		a.as(t, access.RoleAdmin, `mutation ($id: ID!) { revokeApiKey(id: $id) }`, map[string]any{"id": a.Client.KeyID})

		for _, s := range open {
			require.EqualValues(t, 4401, s.closed())
		}
		for events.Scan() { // until it ends
		}
		bystander.send("subscribe", "1", map[string]any{"query": "{ viewer { role } }"})
		require.Equal(t, "next", bystander.next().Type, "other keys go on")
		require.NoError(t, bystander.conn.Close(websocket.StatusNormalClosure, ""))
	})
}

// events opens a job's stream over server-sent events, as the client.
func (a *api) events(t *testing.T, id models.JobID) *bufio.Scanner {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": watchJob, "variables": map[string]any{"id": id}})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Authorization": {"Bearer " + a.Secrets[access.RoleClient]},
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return bufio.NewScanner(res.Body)
}

func TestAccounts(t *testing.T) {
	t.Parallel()

	const update = `mutation ($id: ID!, $i: AccountInput!) { updateAccount(id: $id, input: $i) { id name tier maxQueued maxRunning submitsPerMinute } }`

	t.Run("AreCreatedChangedAndListed", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		made := at[map[string]any](t, a.as(t, access.RoleAdmin, `mutation { createAccount(input: {name: "acme", tier: PRO, maxRunning: 3}) {
			id name tier maxQueued maxRunning submitsPerMinute } }`, nil), "createAccount")
		require.Equal(t, map[string]any{"id": made["id"], "name": "acme", "tier": "PRO", "maxQueued": 200.0, "maxRunning": 3.0,
			"submitsPerMinute": 30.0}, made)

		changed := at[map[string]any](t, a.as(t, access.RoleOperator, update,
			map[string]any{"id": made["id"], "i": map[string]any{"tier": "ENTERPRISE"}}), "updateAccount")

		require.Equal(t, map[string]any{"id": made["id"], "name": "acme", "tier": "ENTERPRISE", "maxQueued": 5000.0, "maxRunning": 3.0,
			"submitsPerMinute": 300.0},
			changed, "a limit of its own stays")
		list := a.as(t, access.RoleOperator, `{ accounts(first: 1) { edges { cursor node { id name } } pageInfo { hasNextPage } } }`, nil)
		require.Equal(t, made["id"], at[string](t, list, "accounts", "edges", 0, "node", "id"))
		require.True(t, at[bool](t, list, "accounts", "pageInfo", "hasNextPage"))
		node := a.as(t, access.RoleOperator, `query ($id: ID!) { node(id: $id) { ... on Account { maxRunning } } }`,
			map[string]any{"id": made["id"]})
		require.EqualValues(t, 3, at[float64](t, node, "node", "maxRunning"))
	})

	t.Run("RefuseInvalidInput", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		before := a.Dump(t)
		for name, c := range map[string]struct {
			id    any
			input map[string]any
			role  access.Role
			code  string
		}{
			"a negative cap":          {a.Account.ID, map[string]any{"maxRunning": -1}, access.RoleOperator, "INVALID_INPUT"},
			"a cap beyond a million":  {a.Account.ID, map[string]any{"maxQueued": 1_000_001}, access.RoleOperator, "INVALID_INPUT"},
			"too many submits":        {a.Account.ID, map[string]any{"submitsPerMinute": 1_000_001}, access.RoleOperator, "INVALID_INPUT"},
			"no name":                 {a.Account.ID, map[string]any{"name": "  "}, access.RoleOperator, "INVALID_INPUT"},
			"a name with a line feed": {a.Account.ID, map[string]any{"name": "a\nb"}, access.RoleOperator, "INVALID_INPUT"},
			"the operators' tier":     {a.Account.ID, map[string]any{"tier": "CRITICAL"}, access.RoleOperator, "FORBIDDEN"},
			"a client's word":         {a.Account.ID, map[string]any{"maxRunning": 5}, access.RoleClient, "FORBIDDEN"},
			"a missing account":       {models.NewAccountID(), map[string]any{"maxRunning": 5}, access.RoleOperator, "NOT_FOUND"},
			"an id of another kind":   {a.Client.KeyID, map[string]any{"maxRunning": 5}, access.RoleOperator, "NOT_FOUND"},
		} {
			got := ask(t, a.url, a.Secrets[c.role], update, map[string]any{"id": c.id, "i": c.input})

			require.Equal(t, []string{c.code}, got.codes(), name)
		}
		for _, input := range []string{`{tier: PRO}`, `{name: "acme"}`, `{name: "", tier: PRO}`} {
			got := ask(t, a.url, a.Secrets[access.RoleAdmin], "mutation { createAccount(input: "+input+") { id } }", nil)

			require.Equal(t, []string{"INVALID_INPUT"}, got.codes(), input)
		}
		require.Equal(t, before, a.Dump(t))
	})
}

func TestCancellation(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheCaller", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		const cancel = `mutation ($id: ID!) { cancelJob(id: $id) { cancellation { by } } }`
		const show = `query ($id: ID!) { job(id: $id) { cancellation { by } } }`
		own, foreign := a.Submit(t).ID, a.Submit(t).ID

		a.client(t, cancel, map[string]any{"id": own})
		told := a.as(t, access.RoleOperator, cancel, map[string]any{"id": foreign})

		require.Equal(t, "test OPERATOR", at[string](t, told, "cancelJob", "cancellation", "by"))
		require.Equal(t, "test CLIENT", at[string](t, a.client(t, show, map[string]any{"id": own}), "job", "cancellation", "by"))
		require.Equal(t, "an operator", at[string](t, a.client(t, show, map[string]any{"id": foreign}), "job", "cancellation", "by"),
			"what operators call their keys is their affair")
	})
}

func TestAccountDeletion(t *testing.T) {
	t.Parallel()

	const begin = `mutation ($id: ID!, $name: String!) { deleteAccount(id: $id, name: $name) {
		accountId name startedAt finishedAt objectsGoneAt jobsLeft unfinishedJobs doing deleted { kind count } kept { kind count } } }`
	const show = `query ($id: ID!) { accountDeletions { accountId } accountDeletion(accountId: $id) {
		name jobsLeft finishedAt objectsGoneAt deleted { kind count } } }`

	t.Run("ShowsItsProgressAndItsReport", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		a.Submit(t)
		id := map[string]any{"id": a.Account.ID, "name": a.Account.Name}

		begun := a.as(t, access.RoleAdmin, begin, id)

		require.Equal(t, "client", at[string](t, begun, "deleteAccount", "name"))
		require.InDelta(t, 1, at[float64](t, begun, "deleteAccount", "jobsLeft"), 0)
		require.Nil(t, at[map[string]any](t, begun, "deleteAccount")["finishedAt"])
		require.Nil(t, at[map[string]any](t, begun, "deleteAccount")["doing"])
		refused := ask(t, a.url, a.Secrets[access.RoleClient], "{ viewer { role } }", nil)
		require.Equal(t, []string{"UNAUTHENTICATED"}, refused.codes())
		require.Contains(t, refused.Errors[0].Message, "is being deleted")
		_, err := a.Eraser.Pass(t.Context())
		require.NoError(t, err)
		over := a.as(t, access.RoleViewer, show, map[string]any{"id": a.Account.ID})
		require.Equal(t, "(deleted account)", at[string](t, over, "accountDeletion", "name"))
		require.NotEmpty(t, at[string](t, over, "accountDeletion", "objectsGoneAt"))
		require.Equal(t, "CANCELLED_JOBS", at[string](t, over, "accountDeletion", "deleted", 0, "kind"))
		require.Equal(t, string(a.Account.ID), at[string](t, over, "accountDeletions", 0, "accountId"))
		require.NotContains(t, fmt.Sprint(a.as(t, access.RoleOperator, "{ accounts { edges { node { id } } } }", nil)), a.Account.ID)
	})

	t.Run("RefusesWhoMayNotAndWhatIsWrong", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		for name, c := range map[string]struct {
			role     access.Role
			id, name any
			code     string
		}{
			"a client":       {access.RoleClient, a.Account.ID, "client", "FORBIDDEN"},
			"a viewer":       {access.RoleViewer, a.Account.ID, "client", "FORBIDDEN"},
			"an operator":    {access.RoleOperator, a.Account.ID, "client", "FORBIDDEN"},
			"another name":   {access.RoleAdmin, a.Account.ID, "clients", "INVALID_INPUT"},
			"an unknown id":  {access.RoleAdmin, models.NewAccountID(), "client", "NOT_FOUND"},
			"no id":          {access.RoleAdmin, "", "client", "NOT_FOUND"},
			"the own one":    {access.RoleAdmin, a.Admin.AccountID, "house", "CONFLICT"},
			"a text of zero": {access.RoleAdmin, a.Account.ID, "\x00", "INVALID_INPUT"},
		} {
			got := ask(t, a.url, a.Secrets[c.role], begin, map[string]any{"id": c.id, "name": c.name})
			require.Equal(t, []string{c.code}, got.codes(), name)
		}
		got := ask(t, a.url, a.Secrets[access.RoleOperator], show, map[string]any{"id": a.Account.ID})
		require.Equal(t, []string{"NOT_FOUND"}, got.codes())
	})
}
