package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/regions"
	"github.com/reelay/reelay/web/rest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// api is the REST API over a stack of the test's own.
type api struct {
	*jobstest.Stack
	url string
	// restart ends every request's context, like the end of the process.
	restart func()
}

const (
	videos = "/api/video-generations"
)

func newAPI(t *testing.T) *api {
	t.Helper()
	s := jobstest.New(t)
	inside := rest.New(rest.Config{
		Keys:      &auth.KeyWatch{Authenticate: s.Keys.Authenticate, Every: 20 * time.Millisecond},
		Submitter: s.Submitter, Canceller: s.Canceller, Inputs: s.Inputs, Reads: s.Reads, Watcher: s.Watcher, Pools: s.Pools, Budgets: s.Budgets,
		Operator: s.Operator, Schedules: s.Schedules, Workflows: s.Workflows, Alerts: s.Alerts,
		Region: func(context.Context) (*region.Report, error) {
			return (&region.Standing{
				Region: "eu", Newest: regions.Promotion{Epoch: 2, Region: "eu"},
				Promotions: []regions.Promotion{{Epoch: 2, Region: "eu", By: "root@db2"}, {Epoch: 1, Region: "us"}},
				Server:     regions.Server{Synchronous: "*", Standbys: []regions.Standby{{Name: "us", State: "sync"}}},
				Peers: []region.Peer{{Address: "https://api.us", Failure: "it does not answer"},
					{Address: "https://api.ap", Claim: &region.Claim{Region: "ap", Epoch: 2}}},
			}).Report(), nil
		},
		Base: func(*http.Request) string { return s.Base }, Large: httpguard.NewLargeBodies(2, 2, testrun.WaitLimit),
	})
	asked, end := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(asked, cancel)()
		inside.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(end)
	return &api{s, server.URL, end}
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// code returns the problem's code and field, or "".
func (a answer) code() string {
	code, _ := a.body["code"].(string)
	if field, ok := a.body["field"].(string); ok {
		code += " " + field
	}
	return code
}

func (a *api) request(t *testing.T, method, path, body string, header http.Header) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testrun.WaitLimit)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+a.Secrets[access.RoleClient])
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirects
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// ask sends a request with the client's key.
func (a *api) ask(t *testing.T, method, path, body string, header http.Header) answer {
	t.Helper()
	res := a.request(t, method, path, body, header)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	got := answer{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if len(bytes.TrimSpace(raw)) > 0 {
		require.NoError(t, json.Unmarshal(raw, &got.body), got.raw)
	}
	if got.status >= 400 {
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.InDelta(t, got.status, got.body["status"], 0)
		require.NotEmpty(t, got.body["detail"])
		require.NotEmpty(t, got.body["title"])
	}
	return got
}

func (a *api) get(t *testing.T, path string) answer {
	t.Helper()
	return a.ask(t, http.MethodGet, path, "", nil)
}

func (a *api) post(t *testing.T, path string, body any) answer {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	return a.ask(t, http.MethodPost, path, string(raw), nil)
}

// completed returns a completed job of the client, with a video.
func (a *api) completed(t *testing.T) *models.Job {
	t.Helper()
	a.Submit(t)
	worker := a.Worker(t, "one")
	_, fence := a.Lease(t, worker)
	return a.finish(t, worker, fence)
}

func (a *api) finish(t *testing.T, worker jobs.Principal, fence lease.Fence) *models.Job {
	t.Helper()
	video := a.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	still := a.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("a still"))
	end, err := a.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Thumbnail: &still})
	require.NoError(t, err)
	return end.Job
}

func as(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }
