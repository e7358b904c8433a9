package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

const generate = "/api/v1/generate"

// asked returns a request with more fields.
func asked(more map[string]any) map[string]any {
	body := map[string]any{"prompt": "a lighthouse"}
	for name, value := range more {
		body[name] = value
	}
	return body
}

func TestGenerate(t *testing.T) {
	t.Parallel()

	t.Run("MapsEveryFieldToTheDomain", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		body := asked(map[string]any{
			"provider": "testcard", "model": "testcard", "durationSeconds": 2, "resolution": "720p", "aspectRatio": "1:1", "seed": 7,
			"imageUrl": "https://example.com/a.png", "priority": "high", "webhookUrl": "https://example.com/hook", "userId": "ann",
			"metadata": map[string]any{"order": 12}, "idempotencyKey": "k",
		})

		got := a.post(t, generate, body)

		require.Equal(t, http.StatusAccepted, got.status, got.raw)
		id, _ := got.body["jobId"].(string)
		require.Equal(t, map[string]any{"jobId": id, "status": "blocked", "model": "testcard", "provider": "testcard",
			"estimatedWaitSeconds": nil, "statusUrl": a.Base + work + "/" + id}, got.body)
		require.Equal(t, a.Base+work+"/"+id, got.header.Get("Location"))
		job := a.Reload(t, models.JobID(id))
		var params map[string]any
		require.NoError(t, json.Unmarshal(job.Params, &params))
		for name, value := range map[string]any{"durationSeconds": 2.0, "resolution": "720p", "aspectRatio": "1:1", "seed": 7.0,
			"referenceImage": "https://example.com/a.png"} {
			require.Equal(t, value, params[name], name)
		}
		require.Equal(t, 1, job.Priority)
		require.Equal(t, "https://example.com/hook", job.CallbackURL)
		require.Equal(t, "ann", job.UserID)
		require.JSONEq(t, `{"order": 12}`, string(job.Metadata))

		again := a.post(t, generate, body)
		require.Equal(t, http.StatusAccepted, again.status)
		require.Equal(t, id, again.body["jobId"])
		delete(body, "idempotencyKey")
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		again = a.ask(t, http.MethodPost, generate, string(raw), http.Header{"Idempotency-Key": {"k"}})
		require.Equal(t, id, again.body["jobId"])
		body["seed"] = 8
		raw, err = json.Marshal(body)
		require.NoError(t, err)
		again = a.ask(t, http.MethodPost, generate, string(raw), http.Header{"Idempotency-Key": {"k"}})
		require.Equal(t, http.StatusConflict, again.status)
		require.Equal(t, "IDEMPOTENCY_CONFLICT idempotencyKey", again.code())
	})

	t.Run("ShowsTheJobUntilItsVideo", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		made := a.post(t, generate, asked(map[string]any{"durationSeconds": 1}))
		require.Equal(t, http.StatusAccepted, made.status, made.raw)
		path := made.body["statusUrl"].(string)[len(a.Base):]
		read := func() map[string]any { return a.get(t, path).body }
		require.Nil(t, read()["phase"])
		require.Nil(t, read()["videoUrl"])

		worker := a.Worker(t, "one")
		_, fence := a.Lease(t, worker)
		require.Equal(t, "SUBMITTED", read()["phase"])
		_, err := a.Attempts.ReportProgress(t.Context(), worker, fence,
			lease.ProgressReport{Progress: models.Progress{Percent: 40, Phase: models.PhaseRendering}})
		require.NoError(t, err)
		require.Equal(t, "GENERATING", read()["phase"])
		require.InDelta(t, 40, read()["progress"], 0)
		for phase, want := range map[models.Phase]string{
			models.PhaseSubmitted: "SUBMITTED", models.PhaseGenerating: "GENERATING", models.PhasePostProcessing: "POST_PROCESSING",
			models.PhaseEncoding: "POST_PROCESSING",
		} {
			_, err = a.Attempts.ReportProgress(t.Context(), worker, fence, lease.ProgressReport{Progress: models.Progress{Percent: 90, Phase: phase}})
			require.NoError(t, err)
			require.Equal(t, want, read()["phase"])
		}
		a.finish(t, worker, fence)

		done := read()
		require.Equal(t, "completed", done["status"])
		require.Equal(t, made.body["jobId"], done["jobId"])
		require.Equal(t, "testcard", done["provider"])
		require.InDelta(t, 100, done["progress"], 0)
		require.Nil(t, done["phase"])
		require.Nil(t, done["error"])
		require.Contains(t, done["videoUrl"], "/objects/")
		require.Contains(t, done["thumbnailUrl"], "/objects/")
		require.NotEmpty(t, done["createdAt"])
		require.Equal(t, done["completed_at"], done["completedAt"])
		require.Equal(t, done["result"].(map[string]any)["result_url"].(string)[:20], done["videoUrl"].(string)[:20])
	})

	t.Run("ShowsWhyAJobFailed", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		made := a.post(t, generate, asked(nil))
		worker := a.Worker(t, "one")
		_, fence := a.Lease(t, worker)
		_, err := a.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: "a face"})
		require.NoError(t, err)

		got := a.get(t, work+"/"+made.body["jobId"].(string)).body

		require.Equal(t, "CONTENT_POLICY", got["error"].(map[string]any)["code"])
		require.Contains(t, got["error"].(map[string]any)["message"], "a face")
	})

	t.Run("IsRefusedByTheContentPolicy", func(t *testing.T) {
		t.Parallel()
		a := newAPI(t)
		a.Submitter.Moderator = refusing{apierror.New(apierror.CodeContentPolicy, "It shows a weapon.")}

		for path, body := range map[string]any{
			generate: asked(nil), videos: asked(nil), work: map[string]any{"payload": asked(nil)},
		} {
			got := a.post(t, path, body)
			require.Equal(t, http.StatusUnprocessableEntity, got.status, got.raw)
			require.Equal(t, "CONTENT_POLICY", got.code())
			require.Equal(t, "It shows a weapon.", got.body["detail"])
		}
		require.Zero(t, a.Count(t, "jobs"))
	})
}

// model is an entry of the catalogue.
func model(name, runtime, properties string) string {
	return fmt.Sprintf(`{"name": %q, "type": "video.generate", "runtime": %q, "gpuTypes": ["any"], "produces": "video", "timeoutSeconds": 600,
		"gpuSecondsPerSecond": 1, "params": {"type": "object", "additionalProperties": false, "properties": %s}}`, name, runtime, properties)
}

func TestGenerateProviders(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	file, err := catalogue.Parse("models.json", fmt.Appendf(nil, `{"models": [%s, %s, %s]}`,
		model("veo-3", "veo", `{"duration_seconds": {"enum": [4, 8]}, "negative_prompt": {"type": "string"}, "aspect_ratio": {"enum": ["16:9"]}}`),
		model("gen-4", "runway", `{"duration": {"type": "integer"}, "ratio": {"enum": ["1280:720", "720:1280"]},
			"promptImage": {"type": "string", "x-reelay-input": "image"}}`),
		model("gen-3", "runway", `{}`)))
	require.NoError(t, err)
	known, err := catalogue.Load(file)
	require.NoError(t, err)
	a.Submitter.Catalogue.Replace(known)

	for name, c := range map[string]struct {
		body         map[string]any
		model, param string
	}{
		"the first":         {map[string]any{}, "testcard", ""},
		"the only one":      {map[string]any{"provider": "veo", "durationSeconds": 8}, "veo-3", `{"duration_seconds": 8}`},
		"the named one":     {map[string]any{"provider": "runway", "model": "gen-4"}, "gen-4", `{}`},
		"without provider":  {map[string]any{"model": "gen-4", "durationSeconds": 5, "resolution": "720p"}, "gen-4", `{"duration": 5, "ratio": "1280:720"}`},
		"of another aspect": {map[string]any{"model": "gen-4", "resolution": "720p", "aspectRatio": "9:16"}, "gen-4", `{"ratio": "720:1280"}`},
		"with an image":     {map[string]any{"model": "gen-4", "imageUrl": "https://example.com/a.png"}, "gen-4", `{"promptImage": "https://example.com/a.png"}`},
		"with a negative":   {map[string]any{"provider": "veo", "negativePrompt": "blur", "aspectRatio": "16:9"}, "veo-3", `{"negative_prompt": "blur", "aspect_ratio": "16:9"}`},
	} {
		got := a.post(t, generate, asked(c.body))
		require.Equal(t, http.StatusAccepted, got.status, "%s: %s", name, got.raw)
		require.Equal(t, c.model, got.body["model"], name)
		if c.param != "" {
			require.JSONEq(t, c.param, string(a.Reload(t, models.JobID(got.body["jobId"].(string))).Params), name)
		}
	}
	for name, c := range map[string]struct {
		body       map[string]any
		code, says string
	}{
		"unknown provider":      {map[string]any{"provider": "runwai"}, "INVALID_INPUT provider", "did you mean \"runway\"?"},
		"several models":        {map[string]any{"provider": "runway"}, "INVALID_INPUT model", "name one of gen-4, gen-3"},
		"of another provider":   {map[string]any{"provider": "veo", "model": "gen-4"}, "INVALID_INPUT model", "is of the provider runway"},
		"no video model":        {map[string]any{"model": "workflow.approval"}, "INVALID_INPUT model", ""},
		"length not in a list":  {map[string]any{"provider": "veo", "durationSeconds": 5}, "INVALID_INPUT durationSeconds", "duration_seconds is not valid: value must be one of 4, 8"},
		"length with fraction":  {map[string]any{"model": "gen-4", "durationSeconds": 5.5}, "INVALID_INPUT durationSeconds", "whole number"},
		"no such parameter":     {map[string]any{"provider": "veo", "seed": 5}, "INVALID_INPUT seed", "Its parameters are aspect_ratio, duration_seconds"},
		"no parameters":         {map[string]any{"model": "gen-3", "seed": 5}, "INVALID_INPUT seed", "It has no parameters"},
		"no image":              {map[string]any{"provider": "veo", "imageUrl": "https://example.com/a.png"}, "INVALID_INPUT imageUrl", "no parameter for imageUrl"},
		"no such size":          {map[string]any{"model": "gen-4", "resolution": "640x480"}, "INVALID_INPUT resolution", "1280:720"},
		"the size contradicted": {map[string]any{"model": "gen-4", "resolution": "1280x720", "aspectRatio": "1:1"}, "INVALID_INPUT aspectRatio", "leave out one"},
	} {
		got := a.post(t, generate, asked(c.body))
		require.Equal(t, http.StatusUnprocessableEntity, got.status, "%s: %s", name, got.raw)
		require.Equal(t, c.code, got.code(), "%s: %s", name, got.raw)
		require.Contains(t, got.body["detail"], c.says, name)
	}
}

func TestGenerateBadInput(t *testing.T) {
	t.Parallel()

	a := newAPI(t)
	long := strings.Repeat("a", 20_000)
	fields := map[string][]any{
		"provider": {1, "", long, "acme", "TESTCARD"}, "model": {1, "", long, "acme"}, "prompt": {1, nil, "", "  ", long, "a\x00"},
		"durationSeconds": {"5", "", true, 0, -1, 61, json.RawMessage("1e400"), []int{1}}, "resolution": {720, "", long, "721p", "0x0", "p", "99999x99999"},
		"aspectRatio": {1.5, "", long, "16/9", "16:0", "2:1"}, "seed": {"7", -1, 1.5, json.RawMessage("1e300")},
		"negativePrompt": {1, "blur"}, "imageUrl": {1, "", long, "ftp://example.com/a.png", "http://169.254.169.254/a"},
		"priority": {1, "", "urgent"}, "webhookUrl": {1, "", long, "ftp://example.com", "http://10.0.0.1"}, "userId": {1, long},
		"metadata": {1, "a", map[string]any{"a": long}}, "idempotencyKey": {1, "", " ", long},
		"fallback": {[]string{"veo"}}, "duration_seconds": {5}, "params": {map[string]any{}},
	}
	for field, values := range fields {
		for _, value := range values {
			got := a.post(t, generate, asked(map[string]any{field: value}))

			require.Equal(t, http.StatusUnprocessableEntity, got.status, "%s %.40v: %s", field, value, got.raw)
			require.True(t, strings.HasPrefix(got.code(), "INVALID_INPUT "+field), "%s %.40v: %s", field, value, got.raw)
			require.Less(t, len(got.raw), 2000, "%s %.40v", field, value)
		}
	}
	got := a.post(t, generate, map[string]any{})
	require.Equal(t, "INVALID_INPUT prompt", got.code())
	got = a.post(t, generate, asked(map[string]any{"durationSecond": 5}))
	require.Contains(t, got.body["detail"], "durationSeconds")
	got = a.post(t, generate, asked(map[string]any{"priority": "critical"}))
	require.Equal(t, http.StatusForbidden, got.status, got.raw)
	require.Equal(t, "FORBIDDEN priority", got.code())
	got = a.ask(t, http.MethodPost, generate, `{"prompt": "a"}`, http.Header{"Idempotency-Key": {""}})
	require.Equal(t, "INVALID_INPUT idempotencyKey", got.code(), got.raw)
	got = a.ask(t, http.MethodPost, generate, `{"prompt": "a", "idempotencyKey": "a"}`, http.Header{"Idempotency-Key": {"b"}})
	require.Equal(t, "INVALID_INPUT idempotencyKey", got.code(), got.raw)
	require.Contains(t, got.body["detail"], "idempotencyKey and the header")
	got = a.ask(t, http.MethodPost, generate, `{"prompt": "a"}`, as(a.Secrets[access.RoleViewer]))
	require.Equal(t, http.StatusForbidden, got.status)
	require.Zero(t, a.Count(t, "jobs"))
}

// refusing refuses all jobs.
type refusing struct{ err error }

func (r refusing) Moderate(_ context.Context, all []submit.Content) []error {
	answers := make([]error, len(all))
	for i := range answers {
		answers[i] = r.err
	}
	return answers
}
