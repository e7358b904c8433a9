package comfyapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestJobs(t *testing.T) {
	t.Parallel()

	t.Run("RenderAGraphWithAnAsset", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		up := d.upload(t, mp4, "content_type", "video/mp4", "file_path", "fox.mp4")
		require.Equal(t, http.StatusCreated, up.Status, up.Text)
		in := up.Body["id"].(string)
		got := d.post(t, "/api/v2/jobs", `{"workflow": `+graph(asset(in))+`, "metadata": {"client": "acme"}}`)
		require.Equal(t, http.StatusCreated, got.Status, got.Text)
		id := got.Body["id"].(string)
		require.Equal(t, "queued", got.Body["status"])
		require.Nil(t, got.Body["progress"])
		require.Equal(t, map[string]any{"client": "acme"}, got.Body["metadata"])
		require.Equal(t, "/api/v2/jobs/"+id, got.Body["urls"].(map[string]any)["self"])

		worker := d.worker(t)
		held, fence := d.Lease(t, worker)
		require.Contains(t, string(held.Job.Params), `{{files.0}}`)
		require.Contains(t, string(held.Job.Params), in)
		require.Equal(t, "running", d.get(t, "/api/v2/jobs/"+id).Body["status"])
		video := d.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := d.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)

		done := d.get(t, "/api/v2/jobs/"+id)
		require.Equal(t, "succeeded", done.Body["status"])
		require.InDelta(t, 1, done.Body["progress"].(map[string]any)["value"], 0)
		out := done.Body["outputs"].([]any)[0].(map[string]any)
		require.Equal(t, "3", out["node_id"])
		require.Equal(t, "video", out["type"])
		require.Equal(t, id, out["job_id"])
		content := d.get(t, "/api/v2/assets/"+out["id"].(string)+"/content")
		require.Equal(t, http.StatusFound, content.Status, content.Text)
		for _, link := range []string{content.Header.Get("Location"), out["url"].(string)} {
			res, err := http.Get(link)
			require.NoError(t, err)
			data, err := io.ReadAll(res.Body)
			res.Body.Close()
			require.NoError(t, err)
			require.Equal(t, "a video", string(data))
		}
		meta := d.get(t, "/api/v2/assets/"+out["id"].(string))
		require.Equal(t, id, meta.Body["job_id"])
		require.Nil(t, meta.Body["hash"])
		require.Equal(t, "asset_in_use", d.do(t, http.MethodDelete, "/api/v2/assets/"+out["id"].(string), "", nil).code())

		workflow := d.get(t, "/api/v2/jobs/"+id+"/workflow")
		require.Equal(t, "api", workflow.Body["format"])
		loaded := workflow.Body["workflow"].(map[string]any)["1"].(map[string]any)["inputs"].(map[string]any)["file"].(map[string]any)
		require.Equal(t, in, loaded["info"].(map[string]any)["id"])

		again := d.submit(t, graph(asset(out["id"].(string)))) // a result is an asset, too
		require.NotEqual(t, id, again)
	})

	t.Run("RenderAPicture", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		d.offer(t, graphs("comfyui.graph")+"\n    produces: image")
		id := d.submit(t, `{"9": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"}}}`)
		worker := d.worker(t)
		_, fence := d.Lease(t, worker)
		picture := d.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("a picture"))
		_, err := d.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Thumbnail: &picture})
		require.NoError(t, err)

		out := d.get(t, "/api/v2/jobs/"+id).Body["outputs"].([]any)[0].(map[string]any)

		require.Equal(t, "image", out["type"])
		require.Equal(t, "9", out["node_id"])
		require.Equal(t, http.StatusFound, d.get(t, "/api/v2/assets/"+out["id"].(string)+"/content").Status)
	})

	t.Run("OfOtherModelsAreNotThere", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		d.offer(t, graphs("comfyui.graph"), `
  - {name: plain, type: video.generate, gpuTypes: [any], timeoutSeconds: 60, gpuSecondsPerSecond: 1,
     params: {type: object, properties: {graph: {}}}}`)
		for _, params := range []string{`{}`, `{"graph": "x"}`, `{"graph": {"1": null}}`, `{"graph": {"1": 2}}`} {
			job, _, err := d.Submitter.Submit(t.Context(), d.Client, submit.Submission{Model: "plain", Params: []byte(params)})
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, d.get(t, "/api/v2/jobs/"+string(job.ID)+"/workflow").Status, params)
		}
	})

	t.Run("AreListedByLabels", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		for _, client := range []string{"a", "b", "a"} {
			d.post(t, "/api/v2/jobs", `{"workflow": `+graph(`"{{files.0}}"`)+`}`) // refused
			got := d.post(t, "/api/v2/jobs", `{"workflow": {"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "`+client+`"}}},
				"metadata": {"client": "`+client+`"}}`)
			require.Equal(t, http.StatusCreated, got.Status, got.Text)
		}
		var found []any
		path := "/api/v2/jobs?limit=1&metadata%5Bclient%5D=a"
		for range 4 {
			page := d.get(t, path)
			require.Equal(t, http.StatusOK, page.Status, page.Text)
			found = append(found, page.Body["jobs"].([]any)...)
			next, more := page.Body["next_cursor"].(string)
			if !more {
				break
			}
			path = "/api/v2/jobs?limit=1&metadata%5Bclient%5D=a&cursor=" + next
		}
		require.Len(t, found, 2)
		require.Equal(t, "queued", found[0].(map[string]any)["status"])
		require.Len(t, d.get(t, "/api/v2/jobs").Body["jobs"], 3)
		for _, query := range []string{"limit=0", "limit=101", "limit=x", "cursor=x", "status=queued", "limit=1&limit=2"} {
			got := d.get(t, "/api/v2/jobs?"+query)
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, got.Status, query)
			require.NotEmpty(t, got.message(), query)
		}
	})

	t.Run("AreNotRepeatedUnderOneKey", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		video := d.upload(t, mp4, "content_type", "video/mp4").Body["id"].(string)
		id := d.submit(t, graph(asset(video)), "Idempotency-Key", "one")
		require.Equal(t, id, d.submit(t, graph(asset(video)), "Idempotency-Key", "one"))
		other := d.post(t, "/api/v2/jobs", `{"workflow": `+strings.Replace(graph(asset(video)), `"x"`, `"y"`, 1)+`}`, "Idempotency-Key", "one")
		require.Equal(t, http.StatusUnprocessableEntity, other.Status)
		require.Equal(t, "idempotency_key_reuse", other.code())
	})

	t.Run("AreCancelled", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		id := d.submit(t, `{"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"}}}`)
		for range 2 { // one that has ended stays as it is
			got := d.do(t, http.MethodPost, "/api/v2/jobs/"+id+"/cancel", "", nil)
			require.Equal(t, http.StatusOK, got.Status, got.Text)
			require.Equal(t, "canceled", got.Body["status"])
		}
		running := d.submit(t, `{"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "y"}}}`)
		d.Lease(t, d.worker(t))
		require.Equal(t, "canceling", d.do(t, http.MethodPost, "/api/v2/jobs/"+running+"/cancel", "", nil).Body["status"])
	})

	t.Run("FailWithTheirReason", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		id := d.submit(t, `{"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"}}}`)
		worker := d.worker(t)
		_, fence := d.Lease(t, worker)
		_, err := d.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "The node 3 failed."})
		require.NoError(t, err)
		got := d.get(t, "/api/v2/jobs/"+id)
		require.Equal(t, "failed", got.Body["status"])
		require.Equal(t, map[string]any{"code": "invalid_input", "message": "The node 3 failed."}, got.Body["error"])
	})

	t.Run("AreFollowed", func(t *testing.T) {
		t.Parallel()
		d := open(t)
		id := d.submit(t, `{"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"}}}`)
		next := d.events(t, id)
		name, data := next()
		require.Equal(t, "status", name)
		require.Equal(t, "queued", data["status"])

		worker := d.worker(t)
		_, fence := d.Lease(t, worker)
		for name != "status" || data["status"] != "running" {
			name, data = next()
		}
		preview := d.Upload(t, worker, fence, models.ArtifactPreview, []byte("a picture"))
		_, err := d.Attempts.CommitArtifact(t.Context(), worker, fence, models.ArtifactPreview, preview)
		require.NoError(t, err)
		_, err = d.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{Progress: models.Progress{
			Percent: 50, Phase: models.PhaseRendering, Step: new(1), TotalSteps: new(2)}})
		require.NoError(t, err)
		seen := map[string]map[string]any{}
		for seen["preview"] == nil || seen["progress"]["value"] != 0.5 {
			name, data = next()
			require.NotEmpty(t, name)
			seen[name] = data
		}
		require.Equal(t, "image/jpeg", seen["preview"]["content_type"])
		require.Equal(t, "YSBwaWN0dXJl", seen["preview"]["data_base64"])

		video := d.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err = d.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		var names []string
		for name, data = next(); name != ""; name, data = next() {
			names = append(names, name)
			if name == "status" {
				require.Equal(t, "succeeded", data["status"])
			}
		}
		require.Equal(t, []string{"output", "status"}, names[len(names)-2:])

		late := d.events(t, id) // a client that comes back reads how it ended
		name, _ = late()
		require.Equal(t, "progress", name)
		require.Equal(t, http.StatusNotAcceptable, d.get(t, "/api/v2/jobs/"+id+"/events").Status)
	})
}

func TestTenants(t *testing.T) {
	t.Parallel()
	d := open(t)
	other := d.other(t)
	video := d.upload(t, mp4, "content_type", "video/mp4")
	in := video.Body["id"].(string)
	id := d.submit(t, graph(asset(in)))
	unused := d.upload(t, mp4+"2", "content_type", "video/mp4").Body["id"].(string)

	for _, request := range []string{
		"GET /jobs/" + id, "GET /jobs/" + id + "/events", "GET /jobs/" + id + "/workflow", "POST /jobs/" + id + "/cancel",
		"GET /assets/" + in, "GET /assets/" + in + "/content", "DELETE /assets/" + unused, "GET /assets/" + unused,
		"GET /assets/by-hash/" + video.Body["hash"].(string), "GET /jobs/x", "GET /assets/x", "DELETE /assets/x",
		"GET /jobs/job_0192f3c8-7a1e-7c3b-9f52-3f3a3c0f7a11",
	} {
		method, path, _ := strings.Cut(request, " ")
		got := other.do(t, method, "/api/v2"+path, "", nil, "Accept", "text/event-stream")
		require.Equal(t, http.StatusNotFound, got.Status, request)
		require.NotEmpty(t, got.message(), request)
	}
	require.Empty(t, other.get(t, "/api/v2/jobs").Body["jobs"])
	for _, file := range []string{in, unused} {
		got := other.post(t, "/api/v2/jobs", `{"workflow": `+graph(asset(file))+`}`)
		require.Equal(t, http.StatusUnprocessableEntity, got.Status, got.Text)
		require.Equal(t, "missing_asset", got.code())
		require.Contains(t, got.message(), file)
	}
	require.Equal(t, models.JobQueued, d.Reload(t, models.JobID(id)).Status)

	operator := &desk{d.Stack, d.url, d.Secrets[access.RoleOperator]} // of another account
	require.Equal(t, http.StatusNotFound, operator.get(t, "/api/v2/jobs/"+id).Status)
	viewer, secret, err := d.Keys.Create(t.Context(), d.Admin, auth.NewKey{AccountID: d.Client.AccountID, Role: access.RoleViewer, Name: "v"})
	require.NoError(t, err)
	require.NotNil(t, viewer)
	reader := &desk{d.Stack, d.url, secret}
	require.Equal(t, http.StatusOK, reader.get(t, "/api/v2/jobs/"+id).Status)
	require.Equal(t, "forbidden", reader.post(t, "/api/v2/jobs", `{}`).code())
}

// TestLimits covers the limits of an account. Clients wait as long as Retry-After says, and submit again.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.BeginReads(t, d.Client)
	d.Submitter.Admission.Rates = spent{}
	const body = `{"workflow": {"3": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x"}}}}`
	refused := func(got answer, code string) {
		t.Helper()
		require.Equal(t, http.StatusTooManyRequests, got.Status, got.Text)
		require.Equal(t, code, got.code())
		require.NotEmpty(t, got.Header.Get("Retry-After"))
	}

	refused(d.get(t, "/api/v2/jobs"), "rate_limited")
	refused(d.post(t, "/api/v2/jobs", body), "rate_limited")
	d.Submitter.Admission.Rates = nil
	d.Exec(t, "UPDATE accounts SET max_queued = 0")
	refused(d.post(t, "/api/v2/jobs", body), "queue_full")
}

// spent is a rate that is used up.
type spent struct{}

// Take implements submit.Rates.
func (spent) Take(_ context.Context, _ string, keys []string, _ int) ([]submit.Token, time.Duration) {
	return make([]submit.Token, len(keys)), 20 * time.Second
}

// Give implements submit.Rates.
func (spent) Give(context.Context, string, []string, int) {}
