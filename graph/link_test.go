package graph_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/auth"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// TestLinks shows that links lead to where the caller reached the API, whichever
// transport it uses.
func TestLinks(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	s.Submit(t)
	worker := s.Worker(t, "one")
	lease, fence := s.Lease(t, worker)
	film := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a film"))
	_, err := s.Holder.Complete(t.Context(), worker, fence, jobs.Completion{Video: &film})
	require.NoError(t, err)
	api := graph.New(&graph.Resolver{Reader: s.Reader, Watcher: s.Watcher, Inputs: s.Inputs},
		&auth.KeyWatch{Authenticate: s.Keys.Authenticate, Most: 9},
		graph.Options{Base: func(r *http.Request) string { return "http://" + r.Host }})
	mux := http.NewServeMux()
	mux.Handle("/graphql", api)
	mux.Handle("/objects/", s.Objects.Handler())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	key := s.Secrets[models.RoleClient]
	const job = `id result { url }`

	t.Run("InAnAnswer", func(t *testing.T) {
		t.Parallel()

		got := ask(t, server.URL+"/graphql", key, `query ($id: ID!) { job(id: $id) { `+job+` } }`, map[string]any{"id": lease.Job.ID})

		link := at[string](t, got.Data, "job", "result", "url")
		require.Contains(t, link, server.URL+"/objects/")
		res, err := http.Get(link)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
	})

	t.Run("OnASocket", func(t *testing.T) {
		t.Parallel()

		socket := dial(t, server.URL+"/graphql", key)
		require.Equal(t, "connection_ack", socket.next().Type)
		socket.send("subscribe", "1", map[string]any{
			"query": `subscription ($id: ID!) { jobProgress(jobId: $id) { ` + job + ` } }`, "variables": map[string]any{"id": lease.Job.ID},
		})

		require.Contains(t, string(socket.next().Payload), server.URL+"/objects/")
	})

	t.Run("InAnEventStream", func(t *testing.T) {
		t.Parallel()

		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/graphql",
			bytes.NewBufferString(`{"query": "subscription { jobProgress(jobId: \"`+string(lease.Job.ID)+`\") { `+job+` } }"}`))
		require.NoError(t, err)
		req.Header = http.Header{"Authorization": {"Bearer " + key}, "Accept": {"text/event-stream"}, "Content-Type": {"application/json"}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		var told bytes.Buffer
		_, err = told.ReadFrom(res.Body)
		require.NoError(t, err)

		require.Contains(t, told.String(), server.URL+"/objects/")
	})

	t.Run("ForAnUpload", func(t *testing.T) {
		t.Parallel()

		data := []byte("not looked at yet")
		got := ask(t, server.URL+"/graphql", key, requestInput, map[string]any{"type": "image/png", "size": len(data), "sum": jobstest.Checksum(data)})

		require.Contains(t, at[string](t, got.Data, "requestInputUpload", "target", "url"), server.URL+"/objects/")
	})
}
