package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// TestOpenAPI_IsWhatTheServerDoes lets schemathesis compare the REST API with its OpenAPI document.
// clients/openapi has what it must know beside the document, and what is excluded, with reasons.
func TestOpenAPI_IsWhatTheServerDoes(t *testing.T) {
	t.Parallel()

	folder, err := filepath.Abs("clients/openapi")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(folder, "venv")); err != nil {
		t.Skip("its packages are not there: `go tool task clients` fetches them")
	}
	s := start(t, "--agents", "1")
	// The two keys differ in what they may see, not in what is valid: an operator's tries what clients may not.
	const phases = "examples,fuzzing,stateful,coverage"
	examples, operators := "6", []string{"--include-tag", "Operators"}
	if testrun.Nightly() {
		examples, operators = "100", nil
	}
	var things [2][]byte
	for i := range things {
		things[i], err = json.Marshal(s.things(t))
		require.NoError(t, err)
	}
	// The agent stops here: the jobs that schemathesis submits need no videos.
	agents := 0
	for name, pid := range s.processes(t) {
		if strings.HasPrefix(name, "agent ") {
			agents++
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		}
	}
	require.Equal(t, 1, agents)
	for i, run := range []struct {
		key     string
		options []string
	}{{s.keys.ClientKey, nil}, {s.keys.OperatorKey, operators}} {
		cmd := testrun.Command(t, "sh", append([]string{filepath.Join(folder, "check.sh"), s.keys.Endpoint, run.key, examples, phases},
			run.options...)...)
		cmd.Env = append(os.Environ(), "REELAY_IDS="+string(things[i]))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// things makes one thing of each kind, and returns the parameters of paths that lead to them, by
// operation.
func (s *stack) things(t *testing.T) map[string][]map[string]string {
	post := func(path string, body any, id string) string {
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.keys.Endpoint+path, bytes.NewReader(raw))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.keys.ClientKey)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Less(t, res.StatusCode, 300, string(text))
		var made map[string]any
		require.NoError(t, json.Unmarshal(text, &made))
		return made[id].(string)
	}
	quick := map[string]any{"prompt": "x", "durationSeconds": 1, "pace": 0}
	job := func(more map[string]any) map[string]string {
		body := map[string]any{"payload": quick}
		for name, value := range more {
			body[name] = value
		}
		return map[string]string{"id": post("/api/v1/jobs", body, "job_id")}
	}
	done, draft := job(nil), job(map[string]any{"draft": map[string]any{"steps": 2}})
	later := func() map[string]string { return job(map[string]any{"execute_at": time.Now().Add(time.Hour)}) }
	until(t, s.client(t), done["id"], completed)
	until(t, s.client(t), draft["id"], completed)
	workflow := func() string {
		return post("/api/v1/workflows", map[string]any{"name": "x", "jobs": []any{
			map[string]any{"key": "a", "job": map[string]any{"payload": quick, "execute_at": time.Now().Add(time.Hour)}},
			map[string]any{"key": "b", "after": []string{"a"}, "job": map[string]any{"payload": quick}},
		}}, "workflow_id")
	}
	film := workflow()
	schedule := func() map[string]string {
		return map[string]string{"id": post("/api/v1/schedules", map[string]any{"every_seconds": 3600, "payload": quick}, "schedule_id")}
	}
	waiting := later()
	both := []map[string]string{done, waiting, draft}
	whole := []map[string]string{{"id": film}}
	return map[string][]map[string]string{
		"getVideo": both, "getVideoEvents": both, "getVideoFile": both, "getJob": both,
		"cancelVideo": {later(), done}, "cancelJob": {later(), later(), done}, "continueJob": {draft, done},
		"getWorkflow": whole, "retryWorkflow": whole, "cancelWorkflow": {{"id": workflow()}},
		"skipWorkflowJob": {{"id": workflow(), "key": "a"}}, "overrideDependency": {{"id": workflow(), "key": "b"}},
		"getSchedule": {schedule()}, "deleteSchedule": {schedule(), schedule()},
		"getDesiredWorkers": {{"name": "local"}}, "resume": {{"what": "schedules"}, {"what": "leases"}},
	}
}
