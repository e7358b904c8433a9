package graph_test

import (
	"encoding/json"
	"image/color"
	"net/http"
	"testing"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const requestInput = `mutation ($type: String!, $size: Int64!, $sum: String!) {
	requestInputUpload(contentType: $type, sizeBytes: $size, checksum: $sum) {
		artifactId target { objectKey url method headers expiresAt } } }`

// link parses an upload link as a client does.
func link(t *testing.T, target map[string]any) jobs.UploadLink {
	t.Helper()
	text, err := json.Marshal(target)
	require.NoError(t, err)
	var l struct {
		URL, Method string
		Headers     map[string]string
		ExpiresAt   time.Time
	}
	require.NoError(t, json.Unmarshal(text, &l))
	return jobs.UploadLink{Link: jobs.Link(l.URL), Method: l.Method, Headers: l.Headers, ExpiresAt: l.ExpiresAt}
}

func TestInput(t *testing.T) {
	t.Parallel()

	t.Run("IsReadableByTheOwnerAndTheWorkerOnly", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		data := jobstest.Picture(t, color.White)
		issued := ask(t, a.url, a.Secrets[access.RoleClient], requestInput,
			map[string]any{"type": "image/png", "size": len(data), "sum": jobstest.Checksum(data)})
		require.Empty(t, issued.Errors)
		upload := at[map[string]any](t, issued.Data, "requestInputUpload")
		require.Equal(t, http.StatusOK, a.Send(t, link(t, at[map[string]any](t, upload, "target")), data))
		id := at[string](t, upload, "artifactId")

		submitted := ask(t, a.url, a.Secrets[access.RoleClient], `mutation ($i: SubmitJobInput!) { submitJob(input: $i) {
			job { id status artifacts(type: INPUT) { id type contentType sizeBytes url expiresAt } inputs { name reference artifact { id url } } } } }`,
			map[string]any{"i": map[string]any{"model": "testcard", "prompt": "p", "params": map[string]any{"referenceImage": id}}})
		worker, token := a.worker(t, "i-1")
		leased := ask(t, a.url, token,
			`mutation ($i: LeaseJobInput!) { leaseJob(input: $i) { lease { inputs { id checksum sizeBytes url } inputNames job { params } } } }`,
			map[string]any{"i": map[string]any{"workerId": worker}})
		node := `query ($id: ID!) { node(id: $id) { id } }`

		require.Empty(t, submitted.Errors)
		job := at[map[string]any](t, submitted.Data, "submitJob", "job")
		require.Equal(t, "QUEUED", job["status"])
		require.Equal(t, id, at[[]any](t, job, "artifacts")[0].(map[string]any)["id"])
		named := at[[]any](t, job, "inputs")[0].(map[string]any)
		require.Equal(t, "referenceImage", named["name"])
		require.Equal(t, id, named["reference"])
		require.Equal(t, id, named["artifact"].(map[string]any)["id"])
		require.Empty(t, leased.Errors)
		require.Equal(t, []any{"referenceImage"}, at[[]any](t, leased.Data, "leaseJob", "lease", "inputNames"))
		input := at[[]any](t, leased.Data, "leaseJob", "lease", "inputs")[0].(map[string]any)
		require.Equal(t, jobstest.Checksum(data), input["checksum"])
		answer, err := http.Get(input["url"].(string))
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, id, at[string](t, ask(t, a.url, a.Secrets[access.RoleClient], node, map[string]any{"id": id}).Data, "node", "id"))
		_, secret, err := a.Keys.Create(t.Context(), jobs.Host, auth.NewKey{AccountID: a.NewAccount(t, "another", models.TierFree).ID,
			Role: access.RoleClient, Name: "k"})
		require.NoError(t, err)
		stranger := ask(t, a.url, secret, node, map[string]any{"id": id})
		require.Nil(t, stranger.Data["node"])
	})

	t.Run("IsAFrameOrAValueOnlyForTheWorker", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		worker, token := a.worker(t, "i-1")
		source := a.Submit(t)
		p, err := a.Keys.Authenticate(t.Context(), token)
		require.NoError(t, err)
		_, fence := a.Lease(t, p)
		video := a.Upload(t, p, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err = a.Attempts.Complete(t.Context(), p, fence, lease.Completion{Video: &video, Output: []byte(`{"mood": "calm"}`)})
		require.NoError(t, err)
		prompt, frame := "a {{"+string(source.ID)+".output.mood}} sea", string(source.ID)+".lastFrame"

		submitted := ask(t, a.url, a.Secrets[access.RoleClient],
			`mutation ($i: SubmitJobInput!) { submitJob(input: $i) { job { prompt params inputs { reference artifact { type } } } } }`,
			map[string]any{"i": map[string]any{"model": "testcard", "prompt": prompt, "params": map[string]any{"referenceImage": frame,
				"style": "very {{" + string(source.ID) + ".output.mood}}"}}})
		leased := ask(t, a.url, token,
			`mutation ($i: LeaseJobInput!) { leaseJob(input: $i) { lease { inputs { type } inputNames inputFrames job { prompt params } } } }`,
			map[string]any{"i": map[string]any{"workerId": worker}})

		require.Empty(t, submitted.Errors)
		job := at[map[string]any](t, submitted.Data, "submitJob", "job")
		require.Equal(t, prompt, job["prompt"])
		require.Equal(t, map[string]any{"reference": frame, "artifact": map[string]any{"type": "FINAL_VIDEO"}}, at[[]any](t, job, "inputs")[0])
		require.Contains(t, at[map[string]any](t, job, "params")["style"], "{{")
		require.Empty(t, leased.Errors)
		lease := at[map[string]any](t, leased.Data, "leaseJob", "lease")
		require.Equal(t, []any{"LAST"}, lease["inputFrames"])
		require.Equal(t, "a calm sea", at[string](t, lease, "job", "prompt"))
		require.Equal(t, "very calm", at[string](t, lease, "job", "params", "style"))
	})

	t.Run("IsRefusedToWorkersAndBeyondItsLimits", func(t *testing.T) {
		t.Parallel()

		a := newAPI(t)
		_, token := a.worker(t, "i-1")
		ask1 := func(secret, contentType string, size any) []string {
			return ask(t, a.url, secret, requestInput, map[string]any{"type": contentType, "size": size, "sum": "AAAAAA=="}).codes()
		}

		require.Equal(t, []string{"FORBIDDEN"}, ask1(token, "image/png", 1))
		require.Equal(t, []string{"INVALID_INPUT"}, ask1(a.Secrets[access.RoleClient], "image/svg+xml", 1))
		require.Equal(t, []string{"INVALID_INPUT"}, ask1(a.Secrets[access.RoleClient], "image/png", 20<<20+1))
	})
}
