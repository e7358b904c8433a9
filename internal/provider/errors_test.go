package provider_test

import (
	"net/http"
	"testing"

	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

func TestErrorsOfCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider string
		status   int
		body     string
		header   string // X-Fal-Retryable
		means    provider.Meaning
		known    bool
	}{
		{"gemini", 400, `{"error":{"code":400,"message":"Invalid interaction name"}}`, "", provider.Gone, true},
		{"gemini", 400, `[{"error":{"code":400,"message":"API key not valid."}}]`, "", provider.KeyRefused, true},
		{"gemini", 400, `{"error":{"code":400,"message":"Invalid authentication credentials"}}`, "", provider.Passing, true},
		{"gemini", 400, `{"error":{"code":400,"message":"blocked: PROHIBITED_CONTENT"}}`, "", provider.Refused, true},
		{"gemini", 400, `{"error":{"code":400,"message":"Invalid value at 'response_format.duration'"}}`, "", provider.Invalid, true},
		{"gemini", 429, `{"error":{"code":429,"message":"Your prepayment credits are depleted."}}`, "", provider.NoCredit, true},
		{"gemini", 429, `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`, "", provider.Limited, true},
		{"kling", 429, `{"code":1302,"message":"rate limit"}`, "", provider.Limited, true},
		{"kling", 429, `{"code":1303,"message":"parallel task over resource pack limit"}`, "", provider.Limited, true},
		{"kling", 429, `{"code":1100,"message":"account exception"}`, "", provider.KeyRefused, true},
		{"kling", 429, `{"code":1101,"message":"account in arrears"}`, "", provider.NoCredit, true},
		{"kling", 429, `{"code":1102,"message":"resource pack depleted or expired"}`, "", provider.NoCredit, true},
		{"kling", 403, `{"code":1103,"message":"Unauthorized access to requested resource"}`, "", provider.Invalid, true},
		{"kling", 401, `{"code":1004,"message":"Authorization is invalid"}`, "", provider.KeyRefused, true},
		{"kling", 400, `{"code":1201,"message":"invalid key"}`, "", provider.Invalid, true},
		{"kling", 400, `{"code":1201,"message":"external_task_id already exists"}`, "", provider.Passing, true},
		{"kling", 400, `{"code":1301,"message":"content security policy"}`, "", provider.Refused, true},
		{"kling", 404, `{"code":1203,"message":"not found"}`, "", provider.Gone, true},
		{"kling", 500, `{"code":5000}`, "", provider.Passing, true},
		{"kling", 418, `{"code":9999}`, "", provider.Passing, false},
		{"fal", 422, `{"detail":[{"loc":["body","prompt"],"msg":"flagged","type":"content_policy_violation"}]}`, "false", provider.Refused, true},
		{"fal", 422, `{"detail":[{"loc":["body","prompt"],"msg":"field required","type":"missing"}]}`, "false", provider.Invalid, true},
		{"fal", 422, `{"detail":[{"msg":"odd","type":"something_new"}]}`, "true", provider.Crashed, true},
		{"fal", 504, `{"detail":[{"msg":"slow","type":"generation_timeout"}]}`, "true", provider.Crashed, true},
		{"fal", 504, `{"detail":"Request timed out","error_type":"request_timeout"}`, "", provider.Crashed, true},
		{"fal", 503, `{"detail":"Runner disconnected","error_type":"runner_disconnected"}`, "", provider.Crashed, true},
		{"fal", 503, `<html>down</html>`, "", provider.Passing, true},
		{"fal", 400, `{"detail":"Request is still in progress"}`, "", provider.Passing, true},
		{"fal", 403, `{"detail":"User is locked. Reason: Exhausted balance."}`, "", provider.NoCredit, true},
		{"fal", 401, `{"detail":"Invalid key"}`, "", provider.KeyRefused, true},
		{"luma", 400, `{"error":{"code":"content_moderated","message":"The prompt breaks the rules."}}`, "", provider.Refused, true},
		{"luma", 402, `{"detail":"budget exhausted"}`, "", provider.NoCredit, true},
		{"luma", 429, `{"detail":"Too many requests"}`, "", provider.Limited, true},
		{"luma", 422, `{"detail":[{"loc":["body","video","duration"],"msg":"Input should be '5s' or '10s'"}]}`, "", provider.Invalid, true},
		{"minimax", 400, `{"error":{"type":"bad_request_error","message":"invalid params (2013)"}}`, "", provider.Invalid, true},
		{"minimax", 400, `{"error":{"type":"bad_request_error","message":"invalid task_id (2013)"}}`, "", provider.Gone, true},
		{"minimax", 401, `{"error":{"type":"authorized_error","message":"login fail (1004)"}}`, "", provider.KeyRefused, true},
		{"minimax", 402, `{"error":{"type":"insufficient_balance_error","message":"no money (1008)"}}`, "", provider.NoCredit, true},
		{"minimax", 422, `{"error":{"type":"unprocessable_entity_error","message":"sensitive content (1026)"}}`, "", provider.Refused, true},
		{"minimax", 422, `{"error":{"type":"unprocessable_entity_error","message":"odd"}}`, "", provider.Invalid, true},
		{"minimax", 429, `{"error":{"type":"rate_limit_error","message":"retry later (1002)"}}`, "", provider.Limited, true},
		{"minimax", 500, `{"error":{"type":"server_error","message":"internal error (1000)"}}`, "", provider.Passing, true},
		{"replicate", 402, `{"title":"Insufficient credit","detail":"You have insufficient credit","status":402}`, "", provider.NoCredit, true},
		{"replicate", 422, `{"detail":"- input.prompt: Invalid type"}`, "", provider.Invalid, true},
		{"replicate", 429, `{"detail":"Request was throttled. Your rate limit resets in ~30s."}`, "", provider.Limited, true},
		{"replicate", 404, `{"detail":"The requested resource could not be found."}`, "", provider.Gone, true},
		{"runpod", 401, ``, "", provider.KeyRefused, true},
		{"runpod", 404, `{"error":"job not found"}`, "", provider.Gone, true},
		{"runpod", 429, `too many`, "", provider.Limited, true},
		{"runpod", 402, `{"error":"insufficient balance"}`, "", provider.NoCredit, true},
		{"veo", 429, `{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}`, "", provider.Limited, true},
		{"veo", 400, `{"error":{"code":400,"message":"words that violate the usage guidelines"}}`, "", provider.Refused, true},
		{"veo", 400, `{"error":{"code":400,"message":"durationSeconds","status":"INVALID_ARGUMENT"}}`, "", provider.Invalid, true},
		{"veo", 403, `{"error":{"code":403,"message":"requires billing to be enabled"}}`, "", provider.NoCredit, true},
		{"veo", 403, `{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}`, "", provider.KeyRefused, true},
		{"veo", 404, `[{"error":{"code":404,"message":"not found","status":"NOT_FOUND"}}]`, "", provider.Gone, true},
		{"runway", 400, `{"error":"You do not have enough credits to run this task."}`, "", provider.NoCredit, true},
		{"runway", 418, `[]`, "", provider.Passing, false},
	} {
		header := http.Header{}
		header.Set("X-Fal-Retryable", c.header)

		f := provider.Find(c.provider).Fault(c.status, header, []byte(c.body))

		require.Equal(t, c.means, f.Rule.Means, "%s %d %s", c.provider, c.status, c.body)
		require.Equal(t, c.known, f.Known, "%s %d %s", c.provider, c.status, c.body)
	}
}

func TestFailuresOfJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider, answer string
		state            provider.State
		means            provider.Meaning
	}{
		{"gemini", `{"id":"r","status":"completed","steps":[{"type":"model_output","content":[{"type":"text","text":"No."}]}]}`,
			provider.Failed, provider.Refused},
		{"gemini", `{"id":"r","status":"failed"}`, provider.Failed, provider.Crashed},
		{"gemini", `{"id":"r","status":"incomplete"}`, provider.Failed, provider.Crashed},
		{"gemini", `{"id":"r","status":"budget_exceeded"}`, provider.Failed, provider.NoCredit},
		{"gemini", `{"id":"r","status":"failed","steps":[{"type":"model_output","error":{"code":3,"message":"blocked for SAFETY"}}]}`,
			provider.Failed, provider.Refused},
		{"kling", `{"code":0,"message":"SUCCEED","data":[{"id":"r","status":"failed","message":"Failure to pass the risk control system"}]}`,
			provider.Failed, provider.Refused},
		{"kling", `{"code":0,"message":"SUCCEED","data":[{"id":"r","status":"failed","message":"Internal error"}]}`,
			provider.Failed, provider.Crashed},
		{"luma", `{"id":"r","state":"failed","failure_code":"content_moderated"}`, provider.Failed, provider.Refused},
		{"luma", `{"id":"r","state":"failed","failure_code":"budget_exhausted"}`, provider.Failed, provider.NoCredit},
		{"luma", `{"id":"r","state":"failed","failure_code":"rate_limited"}`, provider.Failed, provider.Limited},
		{"luma", `{"id":"r","state":"failed","failure_code":"generation_failed"}`, provider.Failed, provider.Crashed},
		{"minimax", `{"task":{"id":"r","status":"failed","error":{"code":"1027","message":"no"}}}`, provider.Failed, provider.Refused},
		{"minimax", `{"task":{"id":"r","status":"failed","error":{"code":"1033","message":"down"}}}`, provider.Failed, provider.Crashed},
		{"minimax", `{"task":{"id":"r","status":"expired"}}`, provider.Failed, provider.Passing},
		{"replicate", `{"id":"r","status":"failed","error":"NSFW content detected. Try a different prompt."}`, provider.Failed, provider.Refused},
		{"replicate", `{"id":"r","status":"failed","error":"Prediction interrupted; please retry (code: PA)"}`,
			provider.Failed, provider.Passing},
		{"replicate", `{"id":"r","status":"failed","error":"boom"}`, provider.Failed, provider.Crashed},
		{"replicate", `{"id":"r","status":"succeeded","output":null,"data_removed":true}`, provider.Failed, provider.Gone},
		{"runpod", `{"id":"r","status":"TIMED_OUT"}`, provider.Failed, provider.Crashed},
		{"runpod", `{"id":"r","status":"FAILED","error":"NSFW prompt"}`, provider.Failed, provider.Refused},
		{"runpod", `{"id":"r","status":"COMPLETED","output":{"error":"CUDA out of memory"}}`, provider.Failed, provider.Crashed},
		{"veo", `{"name":"r","done":true,"error":{"code":3,"message":"breaks the usage guidelines"}}`, provider.Failed, provider.Refused},
		{"veo", `{"name":"r","done":true,"error":{"code":3,"message":"bad image"}}`, provider.Failed, provider.Invalid},
		{"veo", `{"name":"r","done":true,"error":{"code":8,"message":"high load"}}`, provider.Failed, provider.Limited},
		{"veo", `{"name":"r","done":true,"error":{"code":13,"message":"internal"}}`, provider.Failed, provider.Crashed},
		{"veo", `{"name":"r","done":true,"response":{"raiMediaFilteredCount":1,"raiMediaFilteredReasons":["no"]}}`,
			provider.Failed, provider.Refused},
		{"runway", `{"id":"r","status":"FAILED","failureCode":"SAFETY.OUTPUT.VIDEO","failure":"no"}`, provider.Failed, provider.Refused},
	} {
		a := provider.Find(c.provider)
		s, err := a.ReadStatus(provider.Task{Ref: "r"}, []byte(c.answer))
		require.NoError(t, err, c.answer)
		require.Equal(t, c.state, s.State, c.answer)
		require.Equal(t, c.means, a.Failure(s).Rule.Means, c.answer)
	}
}

// Models of one provider have their video in different places.
func TestPlacesOfVideos(t *testing.T) {
	t.Parallel()
	const film, address = "AAAAIGZ0eXBpc29tAAACAGlzb21pc28yYXZjMW1wNDEAAAAIZnJlZQAAAAhtZGF0AAAAIGZ0eXBpc29tAAACAGlzb21pc28yYXZjMW1wNDEAAAAI" +
		"ZnJlZQAAAAhtZGF0AAAAIGZ0eXBpc29tAAACAGlzb21pc28yYXZj", "https://files.example.com/v.mp4"
	for _, c := range []struct{ provider, output string }{
		{"replicate", `"` + address + `"`}, {"replicate", `["` + address + `"]`}, {"replicate", `{"video":"` + address + `"}`},
		{"runpod", `"` + address + `"`}, {"runpod", `{"video_url":"` + address + `"}`}, {"runpod", `{"video":{"url":"` + address + `"}}`},
		{"runpod", `["` + address + `"]`}, {"runpod", `{"result":"` + address + `"}`},
		{"runpod", `{"video":"` + film + `"}`}, {"runpod", `{"video":"data:video/mp4;base64,` + film + `"}`},
	} {
		state := map[string]string{"replicate": "succeeded", "runpod": "COMPLETED"}[c.provider]
		a := provider.Find(c.provider)
		s, err := a.ReadStatus(provider.Task{Ref: "r"}, []byte(`{"id":"r","status":"`+state+`","output":`+c.output+`}`))
		require.NoError(t, err)
		require.Equal(t, provider.Succeeded, s.State)
		if s.Inline == nil {
			require.Equal(t, []string{address}, s.Files, c.output)
		}
		require.True(t, len(s.Files) == 1 || len(s.Inline) > 100, c.output)
	}
	for _, output := range []string{`null`, `{}`, `[]`, `{"video":"done"}`, `{"message":"ok"}`, `7`} {
		s, err := provider.RunPod.ReadStatus(provider.Task{Ref: "r"}, []byte(`{"id":"r","status":"COMPLETED","output":`+output+`}`))
		require.NoError(t, err)
		require.Empty(t, s.Files, output)
		require.Empty(t, s.Inline, output)
	}
}

func TestPathsOfCalls(t *testing.T) {
	t.Parallel()
	task := provider.Task{Ref: "../a", Model: "fal-ai/kling-video/v2/master/text-to-video"}
	require.Equal(t, "/fal-ai/kling-video/requests/..%2Fa/status", provider.Fal.Poll(task).Path)
	require.Equal(t, "/fal-ai/kling-video/requests/..%2Fa/cancel", provider.Fal.Cancel(task).Path)
	require.Equal(t, "/workflows/me/flow/requests/x", provider.Fal.Result(provider.Task{Ref: "x", Model: "workflows/me/flow/path"}).Path)
	for model, path := range map[string]string{
		"kwaivgi/kling-v2.1": "/models/kwaivgi/kling-v2.1/predictions", "me/mine:5c7d5dc6": "/predictions", "5c7d5dc6dd8b": "/predictions",
	} {
		call, err := provider.Replicate.Submit(&provider.Request{Task: provider.Task{Model: model}, Body: []byte(`{}`)})
		require.NoError(t, err)
		require.Equal(t, path, call.Path)
	}
	call, err := provider.Kling.Submit(&provider.Request{Task: provider.Task{Key: "k", Model: "text-to-video/kling-3.0", Prompt: "A boat"},
		Body: []byte(`{"prompt":"A boat","first_frame":"AAAA"}`)})
	require.NoError(t, err)
	require.Equal(t, "/image-to-video/kling-3.0", call.Path)
	require.JSONEq(t, `{"contents": [{"type": "prompt", "text": "A boat"}, {"type": "first_frame", "url": "AAAA"}],
		"options": {"external_task_id": "k"}}`, string(call.Body))
}
