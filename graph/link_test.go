package graph_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// TestLinks checks that links begin with the address at which the caller reached the API, over
// every transport.
func TestLinks(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	s.Submit(t)
	worker := s.Worker(t, "one")
	granted, fence := s.Lease(t, worker)
	video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
	api := graph.New(&graph.Resolver{Reads: s.Reads, Watcher: s.Watcher, Inputs: s.Inputs},
		&auth.KeyWatch{Authenticate: s.Keys.Authenticate, Most: 9},
		graph.Options{Base: func(r *http.Request) string { return "http://" + r.Host }})
	mux := http.NewServeMux()
	mux.Handle("/graphql", api)
	mux.Handle("/objects/", s.Objects.Handler())
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	key := s.Secrets[access.RoleClient]
	const job = `id result { url }`

	t.Run("InAnAnswer", func(t *testing.T) {
		t.Parallel()

		query := url.Values{"query": {`{ job(id: "` + string(granted.Job.ID) + `") { ` + job + ` } }`}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/graphql?"+query.Encode(), nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)

		requireLink(t, server.URL, string(answer))
	})

	t.Run("OnASocket", func(t *testing.T) {
		t.Parallel()

		socket := dial(t, server.URL+"/graphql", key)
		require.Equal(t, "connection_ack", socket.next().Type)
		socket.send("subscribe", "1", map[string]any{
			"query": `subscription ($id: ID!) { jobProgress(jobId: $id) { ` + job + ` } }`, "variables": map[string]any{"id": granted.Job.ID},
		})

		requireLink(t, server.URL, string(socket.next().Payload))
	})

	t.Run("InAnEventStream", func(t *testing.T) {
		t.Parallel()

		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/graphql",
			bytes.NewBufferString(`{"query": "subscription { jobProgress(jobId: \"`+string(granted.Job.ID)+`\") { `+job+` } }"}`))
		require.NoError(t, err)
		req.Header = http.Header{"Authorization": {"Bearer " + key}, "Accept": {"text/event-stream"}, "Content-Type": {"application/json"}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		var told bytes.Buffer
		_, err = told.ReadFrom(res.Body)
		require.NoError(t, err)

		requireLink(t, server.URL, told.String())
	})

	t.Run("ForAnUpload", func(t *testing.T) {
		t.Parallel()

		data := []byte("not looked at yet")
		got := ask(t, server.URL+"/graphql", key, requestInput, map[string]any{"type": "image/png", "size": len(data),
			"sum": jobstest.Checksum(data)})

		require.Contains(t, at[string](t, got.Data, "requestInputUpload", "target", "url"), server.URL+"/objects/")
	})
}

// requireLink finds the link in the text of an answer, as a shell script does, and follows it.
func requireLink(t *testing.T, server, answer string) {
	t.Helper()
	found := regexp.MustCompile(`"url":"([^"]*)"`).FindStringSubmatch(answer)
	require.Len(t, found, 2, answer)
	require.Contains(t, found[1], server+"/objects/")
	res, err := http.Get(found[1])
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode, found[1])
}

// TestPreview checks that a job shows its newest preview while it runs.
func TestPreview(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.Submit(t)
	worker := a.Worker(t, "one")
	lease, fence := a.Lease(t, worker)
	const query = `query ($id: ID!) { job(id: $id) { progress { percent previewUrl } status } }`
	shown := func() any {
		return at[map[string]any](t, a.client(t, query, map[string]any{"id": string(lease.Job.ID)}), "job", "progress")["previewUrl"]
	}
	require.Nil(t, shown())

	for _, picture := range []string{"first", "second"} {
		object := a.Upload(t, worker, fence, models.ArtifactPreview, []byte(picture))
		_, err := a.Attempts.CommitArtifact(t.Context(), worker, fence, models.ArtifactPreview, object)
		require.NoError(t, err)

		require.Contains(t, shown(), "/objects/")
		require.Equal(t, a.Reload(t, lease.Job.ID).PreviewID, a.newest(t, models.ArtifactPreview))
	}
	require.Equal(t, 2, a.Count(t, "artifacts"))
}

// newest returns the id of the newest artifact of a type.
func (a *api) newest(t *testing.T, kind models.ArtifactType) models.ArtifactID {
	t.Helper()
	var id models.ArtifactID
	require.NoError(t, a.DB.NewRaw("SELECT id FROM artifacts WHERE type = ? ORDER BY created_at DESC, id DESC LIMIT 1", kind).Scan(t.Context(),
		&id))
	return id
}
