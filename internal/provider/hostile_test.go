package provider_test

import (
	"testing"

	"github.com/reelay/reelay/internal/provider"
	"github.com/stretchr/testify/require"
)

// What no provider should answer is an error, or a state without files; it is never another job's video.
func TestHostileAnswersOfPolls(t *testing.T) {
	t.Parallel()
	const bad = provider.State("") // ReadStatus returns an error
	for _, c := range []struct {
		provider, ref, answer string
		state                 provider.State
		means                 provider.Meaning // of a job that failed
	}{
		{"minimax", "r", `{"task":{"id":"other","status":"succeeded","content":{"url":"https://a/v"}}}`, bad, ""},
		{"minimax", "r", `{"task":{"id":7,"status":"running"}}`, bad, ""},
		{"minimax", "r", `{"task":{"id":"r","status":"half"}}`, bad, ""},
		{"minimax", "r", `{"task":{"id":"r","status":5}}`, bad, ""},
		{"minimax", "r", `{"task":null}`, bad, ""},
		{"minimax", "r", `null`, bad, ""},
		{"minimax", "r", `<html>`, bad, ""},
		{"minimax", "a/b", `{"task":{"id":"a/b","status":"queued"}}`, provider.Submitted, ""},
		{"minimax", "r", `{"task":{"id":"r","status":"succeeded"}}`, provider.Succeeded, ""},
		{"minimax", "r", `{"task":{"id":"r","status":"succeeded","content":{"url":7}}}`, provider.Succeeded, ""},
		{"minimax", "r", `{"task":{"id":"r","status":"succeeded","content":{"url":null}}}`, provider.Succeeded, ""},
		{"minimax", "r", `{"task":{"id":"r","status":"expired","error":null}}`, provider.Failed, provider.Passing},
		{"minimax", "r", `{"task":{"id":"r","status":"failed","error":{"code":1027}}}`, provider.Failed, provider.Refused},
		{"minimax", "r", `{"task":{"id":"r","status":"failed","error":7}}`, provider.Failed, provider.Crashed},
		{"gemini", "r", `{"id":"other","status":"completed"}`, bad, ""},
		{"gemini", "r", `{"id":"r","status":"thinking"}`, bad, ""},
		{"gemini", "r", `{"id":"r","status":null}`, bad, ""},
		{"gemini", "r", `{"id":"r","status":"completed","steps":null}`, provider.Succeeded, ""},
		{"gemini", "r", `{"id":"r","status":"completed","steps":[{"type":"model_output","content":[{"type":"video","uri":7}]}]}`,
			provider.Succeeded, ""},
		{"gemini", "r", `{"id":"r","status":"completed","steps":[{"type":"user_input","content":[{"type":"video","uri":"https://a/v"}]}]}`,
			provider.Succeeded, ""},
		{"gemini", "r", `{"id":"r","status":"completed","steps":[{"type":"model_output","content":[{"type":"text","text":"No."}]}]}`,
			provider.Failed, provider.Refused},
		{"gemini", "r", `{"id":"r","status":"budget_exceeded"}`, provider.Failed, provider.NoCredit},
		{"gemini", "r", `{"id":"r","status":"requires_action"}`, provider.Failed, provider.Invalid},
		{"gemini", "r", `{"id":"r","status":"incomplete"}`, provider.Failed, provider.Crashed},
		{"gemini", "a/b", `{"id":"a/b","status":"in_progress","progress":700}`, provider.Generating, ""},
		{"veo", "p/o/1", `{"name":"p/o/2","done":true,"response":{"videos":[{"gcsUri":"gs://b/o"}]}}`, bad, ""},
		{"veo", "p/o/1", `{"name":"p/o/1","done":"yes"}`, bad, ""},
		{"veo", "p/o/1", `{"name":"p/o/1","done":1}`, bad, ""},
		{"veo", "p/o/1", `{"done":true}`, bad, ""},
		{"veo", "p/o/1", `{}`, bad, ""},
		{"veo", "p/o/1", `[]`, bad, ""},
		{"veo", "p/o/1", `{"name":"p/o/1","done":null}`, provider.Generating, ""},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true}`, provider.Succeeded, ""},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"response":{"videos":null}}`, provider.Succeeded, ""},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"response":{"videos":[{"bytesBase64Encoded":"%%%"}]}}`, provider.Succeeded, ""},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"response":{"raiMediaFilteredCount":1}}`, provider.Failed, provider.Refused},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"response":{"raiMediaFilteredReasons":["no"]}}`, provider.Failed, provider.Refused},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"error":{"code":3,"message":"violates our usage guidelines"}}`,
			provider.Failed, provider.Refused},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"error":{"code":3,"message":"bad seed"}}`, provider.Failed, provider.Invalid},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"error":{"code":8,"message":"quota"}}`, provider.Failed, provider.Limited},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"error":{"code":14}}`, provider.Failed, provider.Passing},
		{"veo", "p/o/1", `{"name":"p/o/1","done":true,"error":{"code":"odd"}}`, provider.Failed, provider.Crashed},
	} {
		a := provider.Find(c.provider)
		s, err := a.ReadStatus(provider.Task{Ref: c.ref}, []byte(c.answer))
		if c.state == bad {
			require.Error(t, err, c.answer)
			continue
		}
		require.NoError(t, err, c.answer)
		require.Equal(t, c.state, s.State, c.answer)
		require.LessOrEqual(t, s.Done, 1.0)
		require.Empty(t, s.Files, c.answer)
		require.Empty(t, s.Inline, c.answer)
		if c.means != "" {
			require.Equal(t, c.means, a.Failure(s).Rule.Means, c.answer)
		}
	}
}

func TestErrorsOfGoogle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		provider string
		status   int
		body     string
		means    provider.Meaning
	}{
		{"gemini", 400, `{"error":{"code":400,"message":"Invalid interaction name.","status":"INVALID_ARGUMENT"}}`, provider.Gone},
		{"gemini", 400, `[{"error":{"code":400,"message":"blocked: PROHIBITED_CONTENT"}}]`, provider.Refused},
		{"gemini", 400, `{"error":{"message":"API key not valid."}}`, provider.KeyRefused},
		{"gemini", 400, `{"error":{"message":"Request had invalid authentication credentials."}}`, provider.Passing},
		{"gemini", 400, `{"error":{"message":"Invalid value at duration"}}`, provider.Invalid},
		{"gemini", 429, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, provider.Limited},
		{"gemini", 418, `null`, provider.Passing},
		{"veo", 401, `{"error":{"status":"UNAUTHENTICATED"}}`, provider.KeyRefused},
		{"veo", 403, `{"error":{"message":"This API method requires billing to be enabled."}}`, provider.NoCredit},
		{"veo", 400, `{"error":{"message":"violates Vertex AI's usage guidelines"}}`, provider.Refused},
		{"veo", 429, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, provider.Limited},
		{"veo", 404, `{"error":{"status":"NOT_FOUND"}}`, provider.Gone},
		{"veo", 418, `{"error":7}`, provider.Passing},
	} {
		require.Equal(t, c.means, provider.Find(c.provider).Fault(c.status, nil, []byte(c.body)).Rule.Means, "%s %s", c.provider, c.body)
	}
}

func TestPlacesOfVideosOfGoogle(t *testing.T) {
	t.Parallel()
	for place, address := range map[string]string{
		"gs://bucket": "gs://bucket", // no address that is fetched
		"gs://../x":   "gs://../x",
		"gs://b/..":   "gs://b/..",
	} {
		s, err := provider.Veo.ReadStatus(provider.Task{Ref: "o"},
			[]byte(`{"name":"o","done":true,"response":{"videos":[{"gcsUri":"`+place+`"}]}}`))
		require.NoError(t, err)
		require.Equal(t, []string{address}, s.Files)
	}
	s, err := provider.Gemini.ReadStatus(provider.Task{Ref: "r"}, []byte(`{"id":"r","status":"completed","steps":[{"type":"model_output",
		"content":[{"type":"video","uri":"https://a.example/files/x:download"}]}]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"https://a.example/files/x:download?alt=media"}, s.Files)
}
