package graph_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const directives = `subscription ($id: ID!) { workerDirectives(workerId: $id) { action reason jobId deadline } }`

func TestWorkerDirectives(t *testing.T) {
	t.Parallel()

	// listen opens a worker's socket, and returns once it has received CONTINUE.
	listen := func(t *testing.T, a *api, id, token string) *socket {
		t.Helper()
		s := dial(t, a.url, token)
		require.Equal(t, "connection_ack", s.next().Type)
		s.send("subscribe", "1", map[string]any{"query": directives, "variables": map[string]any{"id": id}})
		require.Contains(t, string(s.next().Payload), `"action":"CONTINUE"`)
		return s
	}

	t.Run("DeliverACancelWithinASecond", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		job := a.Submit(t)
		id, token := a.worker(t, "i-1")
		a.lease(t, id, token)
		s := listen(t, a, id, token)

		clock := testrun.StartQuietClock()
		a.client(t, `mutation ($id: ID!) { cancelJob(id: $id) { status } }`, map[string]any{"id": job.ID})
		heard := s.next()

		require.Less(t, clock.Elapsed(), time.Second)
		require.JSONEq(t, `{"data":{"workerDirectives":{"action":"CANCEL","reason":null,"jobId":"`+string(job.ID)+`","deadline":null}}}`,
			string(heard.Payload))
		testrun.Eventually(t, "the delivery of the cancellation is noted", func() bool { return !a.Reload(t, job.ID).CancelDeliveredAt.IsZero() })
	})

	t.Run("EndWithATerminate", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		id, token := a.worker(t, "i-1")
		// its token is revoked, too: here the stream is quicker
		patient := httptest.NewServer(graph.New(&graph.Resolver{Reads: a.Reads, Watcher: a.Watcher},
			&auth.KeyWatch{Authenticate: a.Keys.Authenticate, Every: time.Minute}, graph.Options{}))
		t.Cleanup(patient.Close)
		a.url = patient.URL
		s := listen(t, a, id, token)

		_, err := a.Fleet.TerminateWorker(t.Context(), a.Admin, models.WorkerID(id))

		require.NoError(t, err)
		require.Contains(t, string(s.next().Payload), `"action":"TERMINATE"`)
		require.Equal(t, frame{ID: "1", Type: "complete"}, s.next())
	})

	t.Run("AreHiddenFromOtherCallers", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		id, _ := a.worker(t, "i-1")
		_, other := a.worker(t, "i-2")

		for key, code := range map[string]string{
			other: "NOT_FOUND", a.Secrets[access.RoleWorker]: "FORBIDDEN", a.Secrets[access.RoleClient]: "FORBIDDEN",
			a.Secrets[access.RoleOperator]: "FORBIDDEN",
		} {
			s := dial(t, a.url, key)
			require.Equal(t, "connection_ack", s.next().Type)
			s.send("subscribe", "1", map[string]any{"query": directives, "variables": map[string]any{"id": id}})

			require.Contains(t, string(s.next().Payload), code)
		}
	})
}
