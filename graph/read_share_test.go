package graph_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// usedUp returns an API whose client has as many reads running as one account may have.
func usedUp(t *testing.T) *api {
	t.Helper()
	a := newAPI(t)
	a.BeginReads(t, a.Client)
	return a
}

func TestReadShares(t *testing.T) {
	t.Parallel()

	const list = `{ jobs(first: 20) { edges { node { id status prompt createdAt } } } }`

	t.Run("RefuseAQuery", func(t *testing.T) {
		t.Parallel()
		a := usedUp(t)
		body, err := json.Marshal(map[string]string{"query": list})
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, bytes.NewReader(body))
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/graphql-response+json", "Authorization": "Bearer " +
				a.Secrets[access.RoleClient],
		} {
			request.Header.Set(name, value)
		}

		response, err := http.DefaultClient.Do(request)

		require.NoError(t, err)
		defer response.Body.Close()
		var got answer
		require.NoError(t, json.NewDecoder(response.Body).Decode(&got))
		require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		require.Equal(t, "1", response.Header.Get("Retry-After"))
		require.Equal(t, []string{string(apierror.CodeRateLimited)}, got.codes())
		require.EqualValues(t, 1, got.Errors[0].Extensions["retryAfterSeconds"])
	})

	t.Run("RefuseAMutationThatReturnsLists", func(t *testing.T) {
		t.Parallel()
		a := usedUp(t)
		job := a.Submit(t)

		got := ask(t, a.url, a.Secrets[access.RoleClient],
			`mutation ($id: ID!) { cancelJob(id: $id) { events(first: 200) { edges { node { seq type } } } } }`, map[string]any{"id": job.ID})

		require.Equal(t, []string{string(apierror.CodeRateLimited)}, got.codes())
		require.Equal(t, models.JobQueued, a.Reload(t, job.ID).Status, "nothing ran")
	})

	t.Run("DoNotCountObjectsReadByID", func(t *testing.T) {
		t.Parallel()
		a := usedUp(t)
		job := a.Submit(t)

		a.client(t, `query ($id: ID!) { job(id: $id) { id status prompt params progress { percent } account { name } attempts { id } } }`,
			map[string]any{"id": job.ID})
		a.client(t, `mutation ($id: ID!) { cancelJob(id: $id) { id status } }`, map[string]any{"id": job.ID})
	})

	t.Run("CountAccountsSeparately", func(t *testing.T) {
		t.Parallel()
		a := usedUp(t)

		a.as(t, access.RoleOperator, list, nil)
	})

	t.Run("DelayAnExpensiveMessage", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		job := a.Submit(t)
		end := a.BeginReads(t, a.Client)
		socket := dial(t, a.url, a.Secrets[access.RoleClient])
		follow := func(id, fields string) {
			socket.send("subscribe", id, map[string]any{
				"query":     `subscription ($id: ID!) { jobProgress(jobId: $id) { id ` + fields + ` } }`,
				"variables": map[string]any{"id": job.ID},
			})
		}
		follow("all", "events(first: 50) { edges { node { seq type } } }")
		follow("plain", "status")

		require.Equal(t, "connection_ack", socket.next().Type)
		require.Equal(t, "plain", socket.next().ID, "the other one waits")
		end()

		got := socket.next()
		require.Equal(t, "all", got.ID)
		require.Equal(t, "next", got.Type)
	})
}
