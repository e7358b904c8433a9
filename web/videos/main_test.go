//lint:file-ignore SA1019 the package calls its videos deprecated since OpenAI serves them no more; Reelay does

package videos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/videos"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// desk is the Videos API over a stack of the test's own.
type desk struct {
	*jobstest.Stack
	url string
	// calls counts the authenticated requests.
	calls atomic.Int32
}

func open(t *testing.T) *desk {
	t.Helper()
	s := jobstest.New(t)
	names, err := videos.ReadModels("sora-2=testcard, sora-2-pro=testcard")
	require.NoError(t, err)
	d := &desk{Stack: s}
	mux := http.NewServeMux()
	mux.Handle("/objects/", s.Objects.Handler())
	mux.Handle("/", videos.New(videos.Config{
		Authenticate: func(ctx context.Context, secret string) (jobs.Principal, error) {
			d.calls.Add(1)
			return s.Keys.Authenticate(ctx, secret)
		},
		Videos: s.Videos, Shares: s.Reads.Shares, Inputs: s.Inputs, Models: names, VideosKept: upkeep.DefaultRetention.Videos,
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// official returns the official client with its defaults.
func (d *desk) official(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(d.url + "/v1"), option.WithAPIKey(d.Secrets[access.RoleClient]),
	}, options...)...)
}

// answer is a response.
type answer struct {
	Status int
	Header http.Header
	Text   string
	Body   map[string]any
}

func (a answer) err() map[string]any {
	shown, _ := a.Body["error"].(map[string]any)
	return shown
}

// do sends a request with the client's key. header holds pairs of names and values. It does
// not follow redirects.
func (d *desk) do(t *testing.T, method, path, contentType string, body io.Reader, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+d.Secrets[access.RoleClient])
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	got := answer{Status: res.StatusCode, Header: res.Header, Text: string(text)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && method != http.MethodHead {
		require.NoError(t, json.Unmarshal(text, &got.Body))
	}
	require.Regexp(t, `^req_[0-9a-f]{32}$`, res.Header.Get("X-Request-Id"))
	return got
}

func (d *desk) get(t *testing.T, path string) answer {
	t.Helper()
	return d.do(t, http.MethodGet, path, "", nil)
}

func (d *desk) json(t *testing.T, path, body string, header ...string) answer {
	t.Helper()
	return d.do(t, http.MethodPost, path, "application/json", strings.NewReader(body), header...)
}

// form returns a multipart body of pairs of names and values.
func form(t *testing.T, pairs ...string) (contentType string, body *bytes.Buffer) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(t, w.WriteField(pairs[i], pairs[i+1]))
	}
	require.NoError(t, w.Close())
	return w.FormDataContentType(), body
}

// create makes a video, and returns its id.
func (d *desk) create(t *testing.T, body string, header ...string) string {
	t.Helper()
	got := d.json(t, "/v1/videos", body, header...)
	require.Equal(t, http.StatusOK, got.Status, got.Text)
	return got.Body["id"].(string)
}

func jobID(t *testing.T, video string) models.JobID {
	t.Helper()
	id, ok := models.ParseVideoID(video)
	require.True(t, ok, video)
	return id
}

// render lets a worker complete the next job, with a video and a picture.
func (d *desk) render(t *testing.T) {
	t.Helper()
	worker := d.Worker(t, "one")
	_, fence := d.Lease(t, worker)
	d.finish(t, worker, fence)
}

// finish completes the job that a worker holds, with a video and a picture.
func (d *desk) finish(t *testing.T, worker jobs.Principal, fence lease.Fence) {
	t.Helper()
	video := d.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	picture := d.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("a picture"))
	_, err := d.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Thumbnail: &picture})
	require.NoError(t, err)
}
