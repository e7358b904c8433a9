package comfyapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/upkeep"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/comfyapi"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

const mp4 = "\x00\x00\x00\x20ftypisom\x00\x00\x02\x00 a video"

// graphs is a catalogue entry that takes graphs of these accounts, or of all if there are none.
func graphs(name string, accounts ...models.AccountID) string {
	limited := ""
	if len(accounts) > 0 {
		raw, _ := json.Marshal(accounts)
		limited = "\n    accounts: " + string(raw)
	}
	return fmt.Sprintf(`
  - name: %s
    type: video.generate
    runtime: comfyui%s
    settings: {any: {nodes: [LoadVideo, SlowFrames, SaveVideo], files: [small.safetensors]}}
    gpuTypes: [any]
    timeoutSeconds: 600
    gpuSecondsPerSecond: 1
    params:
      type: object
      additionalProperties: false
      required: [graph]
      properties:
        graph: {type: object}
        files: {type: array, maxItems: 4, items: {type: string}, x-reelay-input: [image, video, audio]}`, name, limited)
}

// desk is the Comfy API over a stack of the test's own.
type desk struct {
	*jobstest.Stack
	url, key string
}

func open(t *testing.T) *desk {
	t.Helper()
	s := jobstest.New(t)
	d := &desk{Stack: s, key: s.Secrets[access.RoleClient]}
	d.offer(t, graphs("comfyui.graph"))
	mux := http.NewServeMux()
	mux.Handle("/objects/", s.Objects.Handler())
	mux.Handle("/", comfyapi.New(comfyapi.Config{
		Keys: &auth.KeyWatch{Authenticate: s.Keys.Authenticate}, Submitter: s.Submitter, Canceller: s.Canceller, Inputs: s.Inputs,
		Reads: s.Reads, Watcher: s.Watcher, Base: func(*http.Request) string { return d.url }, OutputsKept: upkeep.DefaultRetention.Videos,
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// offer replaces the catalogue.
func (d *desk) offer(t *testing.T, entries ...string) {
	t.Helper()
	source, err := catalogue.Parse("models.yaml", []byte("models:"+strings.Join(entries, "")))
	require.NoError(t, err)
	known, err := catalogue.Load(source)
	require.NoError(t, err)
	d.Submitter.Catalogue.Replace(known)
}

// other returns the desk for another account.
func (d *desk) other(t *testing.T) *desk {
	t.Helper()
	account := d.NewAccount(t, "other", models.TierPro)
	_, secret, err := d.Keys.Create(t.Context(), d.Admin, auth.NewKey{AccountID: account.ID, Role: access.RoleClient, Name: "other"})
	require.NoError(t, err)
	return &desk{d.Stack, d.url, secret}
}

// answer is a response.
type answer struct {
	Status int
	Header http.Header
	Text   string
	Body   map[string]any
}

func (a answer) code() any {
	shown, _ := a.Body["error"].(map[string]any)
	return shown["code"]
}

func (a answer) message() string {
	shown, _ := a.Body["error"].(map[string]any)
	text, _ := shown["message"].(string)
	return text
}

// do sends a request. header holds pairs of names and values. It does not follow redirects.
func (d *desk) do(t *testing.T, method, path, contentType string, body io.Reader, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+d.key)
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
	require.Regexp(t, `^req_[0-9a-f]{32}$`, res.Header.Get("X-Comfy-Request-Id"))
	return got
}

func (d *desk) get(t *testing.T, path string) answer {
	t.Helper()
	return d.do(t, http.MethodGet, path, "", nil)
}

func (d *desk) post(t *testing.T, path, body string, header ...string) answer {
	t.Helper()
	return d.do(t, http.MethodPost, path, "application/json", strings.NewReader(body), header...)
}

// graph is a graph that is allowed. video is the JSON of what its node 1 loads.
func graph(video string) string {
	return `{"1": {"class_type": "LoadVideo", "inputs": {"file": ` + video + `}},
		"3": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0], "filename_prefix": "x"}}}`
}

func asset(id string) string { return fmt.Sprintf(`{"__type": "core/ASSET", "info": {"id": %q}}`, id) }

// submit submits a graph, and returns the job's id.
func (d *desk) submit(t *testing.T, workflow string, header ...string) string {
	t.Helper()
	got := d.post(t, "/api/v2/jobs", `{"workflow": `+workflow+`}`, header...)
	require.Equal(t, http.StatusCreated, got.Status, got.Text)
	return got.Body["id"].(string)
}

// upload uploads a file with the fields, which are pairs of names and values.
func (d *desk) upload(t *testing.T, data string, fields ...string) answer {
	t.Helper()
	body := &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, w.WriteField(fields[i], fields[i+1]))
	}
	part, err := w.CreateFormFile("file", "x.mp4")
	require.NoError(t, err)
	_, err = io.WriteString(part, data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return d.do(t, http.MethodPost, "/api/v2/assets", w.FormDataContentType(), body)
}

// worker registers a worker for graphs.
func (d *desk) worker(t *testing.T) jobs.Principal {
	t.Helper()
	_, secret, err := d.Registrar.Register(t.Context(), d.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: "comfy", GPUCount: 1, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"comfyui.graph"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := d.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// events follows the events of a job. next returns the name and the data of the next one, or "" at the end.
func (d *desk) events(t *testing.T, id string) (next func() (string, map[string]any)) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/api/v2/jobs/"+id+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	lines := bufio.NewScanner(res.Body)
	return func() (name string, data map[string]any) {
		for lines.Scan() {
			if after, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = after
			}
			if after, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				require.NoError(t, json.Unmarshal([]byte(after), &data))
				return name, data
			}
		}
		return "", nil
	}
}
