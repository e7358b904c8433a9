package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

// screeningRoom accepts workflows, and completes each at the second look.
type screeningRoom struct {
	mu        sync.Mutex
	submitted []client.SubmitWorkflowInput
	uploads   int
	// nodes are those of the newest workflow, as the API shows them.
	nodes []string
	// refuse, if it is set, is the code with which the next submit is refused.
	refuse string
	looks  int
	fails  bool
}

func (s *screeningRoom) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/put") {
		return
	}
	if r.URL.Path == "/film.mp4" {
		io.WriteString(w, "hello world")
		return
	}
	var request struct {
		OperationName string
		Variables     struct {
			Input client.SubmitWorkflowInput
			Key   string
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&request)
	status := map[bool]string{true: "COMPLETED", false: "RUNNING"}[s.looks > 1]
	if s.fails && s.looks > 1 {
		status = "FAILED"
	}
	head := fmt.Sprintf(`"id": "wfl_%d", "name": "harbour", "status": %q, "run": 1, "percent": 50, "counts": {"total": %d, "completed": 1}, "createdAt": "2026-01-31T12:00:00Z"`,
		len(s.submitted), status, len(s.nodes))
	answer := ""
	switch request.OperationName {
	case "workflows":
		answer = `{"workflows": {"edges": [], "pageInfo": {"hasNextPage": false}}}`
		if len(s.submitted) > 0 {
			answer = `{"workflows": {"edges": [{"node": {` + head + `}}], "pageInfo": {"hasNextPage": false}}}`
		}
	case "requestInputUpload":
		s.uploads++
		answer = fmt.Sprintf(`{"requestInputUpload": {"artifactId": "art_%d", "target": {"url": "/put", "method": "PUT", "headers": {}}}}`,
			s.uploads)
	case "submitWorkflow":
		if s.refuse != "" {
			fmt.Fprintf(w, `{"errors": [{"message": "There is no such artifact.", "extensions": {"code": %q}}]}`, s.refuse)
			s.refuse = ""
			return
		}
		s.submit(request.Variables.Input)
		answer = fmt.Sprintf(`{"submitWorkflow": {"id": "wfl_%d", "name": "harbour", "status": "RUNNING", "counts": {"total": %d, "completed": 1}, "createdAt": "2026-01-31T12:00:00Z"}}`, len(s.submitted), len(s.nodes))
	case "workflowDetail":
		s.looks++
		answer = fmt.Sprintf(`{"workflow": {%s, "output": {"key": "film", "job": {"id": "job_film"}}, "jobs": [%s]}}`, head,
			strings.Join(s.nodes, ","))
	case "cancelWorkflow", "retryWorkflow", "skipWorkflowJob", "overrideDependency":
		if v := request.Variables; v.Key == "used" {
			fmt.Fprint(w, `{"errors": [{"message": "The node film uses the result of used: skip that one, too, and first.", "extensions": {"code": "CONFLICT"}}]}`)
			return
		}
		answer = fmt.Sprintf(`{%q: {%s}}`, request.OperationName, head)
	case "job":
		answer = `{"job": {"id": "job_film", "status": "COMPLETED", "progress": {"phase": "DONE"}, "result": {"id": "art_f", "type": "FINAL_VIDEO", "sizeBytes": 11, "checksum": "yZRlqg==", "contentType": "video/mp4", "url": "/film.mp4"}}}`
	}
	fmt.Fprintf(w, `{"data": %s}`, answer)
}

func (s *screeningRoom) submit(in client.SubmitWorkflowInput) {
	s.submitted, s.nodes, s.looks = append(s.submitted, in), nil, 0
	for i, node := range in.Jobs {
		job, _ := json.Marshal(map[string]any{
			"id": fmt.Sprintf("job_%d", i), "model": node.Job.Model, "status": map[bool]string{true: "FAILED", false: "RUNNING"}[s.fails && i == 0],
			"params": node.Job.Params, "metadata": node.Job.Metadata,
			"failureClass": "TIMEOUT", "failureReason": "It took too long.", "waitingFor": []any{},
			"progress": map[string]any{"percent": 62, "phase": "RENDERING"},
		})
		s.nodes = append(s.nodes, fmt.Sprintf(`{"key": %q, "after": [], "reused": false, "job": %s}`, node.Key, job))
	}
}

func serveScreeningRoom(t *testing.T) (*screeningRoom, []string) {
	t.Helper()
	s := &screeningRoom{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, []string{"--endpoint", server.URL, "--key", "k"}
}

func TestStoryboard(t *testing.T) {
	t.Parallel()
	const text = "name: harbour\ndefaults: {model: testcard}\nreferences: {pier: pier.png}\nshots:\n- {prompt: fog, reference: pier}\n- {prompt: gulls, reference: pier, seed: 3}\n"
	film := func(t *testing.T) string {
		t.Helper()
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "pier.png"), []byte("\x89PNG\r\n\x1a\nimage"), 0o600))
		path := filepath.Join(folder, "harbour.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}

	t.Run("MakesAndDownloadsAFilm", func(t *testing.T) {
		t.Parallel()
		s, args := serveScreeningRoom(t)
		path := filepath.Join(t.TempDir(), "film.mp4")

		status, out, errs := call(t, t.Context(), append(args, "storyboard", film(t), "--output", path)...)

		require.Zero(t, status, errs)
		require.Contains(t, out, path)
		require.FileExists(t, path)
		require.Contains(t, errs, "wfl_1 is accepted\n")
		require.Contains(t, errs, "console: http://127.0.0.1:")
		require.Contains(t, errs, "/workflows/wfl_1\n")
		require.Contains(t, errs, "shots.s1: running, RENDERING\n")
		require.Len(t, s.submitted[0].Jobs, 4)
		require.Nil(t, s.submitted[0].Reuse)
	})

	t.Run("TakesOverWhatDidNotChange", func(t *testing.T) {
		t.Parallel()
		s, args := serveScreeningRoom(t)
		path := film(t)
		args = append(args, "storyboard", path)
		status, _, errs := call(t, t.Context(), args...)
		require.Zero(t, status, errs)

		status, _, errs = call(t, t.Context(), args...)
		require.Zero(t, status, errs)
		require.Equal(t, "wfl_1", *s.submitted[1].Reuse)
		require.Equal(t, s.submitted[0].Jobs, s.submitted[1].Jobs, "the image is not uploaded again")
		require.Equal(t, 1, s.uploads)

		s.refuse = "NOT_FOUND"
		status, _, errs = call(t, t.Context(), append(args, "--reshoot", "s2")...)
		require.Zero(t, status, errs)
		require.Equal(t, 2, s.uploads, "the earlier upload is gone")
		require.Contains(t, errs, "The shot s2 gets the seed ")
		require.NotContains(t, string(*s.submitted[2].Jobs[1].Job.Params), `"seed":3}`)

		status, _, errs = call(t, t.Context(), append(args, "--fresh")...)
		require.Zero(t, status, errs)
		require.Nil(t, s.submitted[3].Reuse)
	})

	t.Run("SaysWhichShotFailed", func(t *testing.T) {
		t.Parallel()
		s, args := serveScreeningRoom(t)
		s.fails = true

		status, _, errs := call(t, t.Context(), append(args, "storyboard", film(t), "--wait")...)

		require.Equal(t, 1, status)
		require.Contains(t, errs, "wfl_1 failed\nshots.s1: TIMEOUT: It took too long.\nRun the failed nodes again with `reelay workflows retry wfl_1`")
	})

	t.Run("RefusesWhatCannotBeAFilm", func(t *testing.T) {
		t.Parallel()
		s, args := serveScreeningRoom(t)
		for flags, says := range map[string]string{
			film(t) + " --reshoot s9":                "--reshoot: there is no shot s9: the shots are s1, s2",
			film(t) + " --fresh --reuse wfl_1":       "none of the others can be",
			film(t) + " --output /none/film.mp4":     "the folder /none",
			"/none/film.yaml":                        "no such file",
			shots(t, text):                           "pier.png: no such file",
			shots(t, "name: x\nshots: [{promt: x}]"): "did you mean prompt?",
		} {
			status, _, errs := call(t, t.Context(), append(append(args, "storyboard"), strings.Fields(flags)...)...)
			require.NotZero(t, status)
			require.Contains(t, errs, says)
		}
		require.Empty(t, s.submitted)
	})
}

func TestWorkflows(t *testing.T) {
	t.Parallel()

	t.Run("RunsAFile", func(t *testing.T) {
		t.Parallel()
		s, args := serveScreeningRoom(t)
		const yaml = "name: nightly\noutput: b\njobs:\n- key: a\n  job: {model: testcard, prompt: a fox, priority: 5}\n- key: b\n  after: [a]\n  onParentFailure: CONTINUE\n  job: {model: http.call, params: {url: \"{{a.video}}\"}}\n"
		const asJSON = `{"name": "nightly", "output": "b", "jobs": [{"key": "a", "job": {"model": "testcard", "prompt": "a fox", "priority": 5}}, {"key": "b", "after": ["a"], "onParentFailure": "CONTINUE", "job": {"model": "http.call", "params": {"url":"{{a.video}}"}}}]}`
		for _, text := range []string{yaml, asJSON} {
			status, out, errs := call(t, t.Context(), append(args, "workflows", "run", "-f", shots(t, text), "--wait", "--idempotency-key", "k")...)
			require.Zero(t, status, errs)
			require.Contains(t, out, "wfl_")
		}

		require.Equal(t, s.submitted[0], s.submitted[1])
		require.Equal(t, "k", *s.submitted[0].IdempotencyKey)
		require.Equal(t, client.FailurePolicyContinue, *s.submitted[0].Jobs[1].OnParentFailure)
		require.Equal(t, 5, *s.submitted[0].Jobs[0].Job.Priority)
	})

	t.Run("ShowsCancelsAndRetries", func(t *testing.T) {
		t.Parallel()
		s, args := serveScreeningRoom(t)
		s.submit(client.SubmitWorkflowInput{Jobs: []client.WorkflowJobInput{{Key: "shots.s1", Job: client.SubmitJobInput{Model: "testcard"}}}})
		const id = "wfl_01937d3e-0000-7000-8000-000000000001"
		for flags, says := range map[string]string{
			"workflows":                       "harbour",
			"workflows list --status running": "wfl_1",
			"workflows show " + id:            "shots.s1",
			"workflows show " + id + " --jq .jobs[0].job.status": "RUNNING",
			"workflows cancel " + id + " --reason x":             "wfl_1 stops",
			"workflows retry " + id:                              "wfl_1 runs again: 0 jobs to go",
			"workflows skip " + id + " shots.s1 shots.s2":        "shots.s1 is skipped\nshots.s2 is skipped\nFollow the workflow with: reelay workflows show wfl_1\n",
			"workflows override " + id + " film shots.s1":        "shots.s1 does not hold up film any more\n",
			"workflows skip " + id + " shots.s1 --jq .status":    "RUNNING",
		} {
			s.mu.Lock()
			s.looks = 0
			s.mu.Unlock()
			status, out, errs := call(t, t.Context(), append(args, strings.Fields(flags)...)...)
			require.Zero(t, status, errs)
			require.Contains(t, out, says)
		}
	})

	t.Run("RefusesToSkipAndOverrideWithoutNodes", func(t *testing.T) {
		t.Parallel()
		_, args := serveScreeningRoom(t)
		for flags, says := range map[string]string{
			"workflows skip":                                "give the id of a workflow and the keys of its nodes to skip",
			"workflows skip wfl_01937d3e":                   "give the id of a workflow and the keys of its nodes to skip",
			"workflows override wfl_01937d3e film":          "the keys of the nodes for which it should not",
			"workflows skip no film":                        `"no" is not the id of a workflow, such as wfl_01937d3e`,
			"workflows skip wfl_x shots.s1 used shots.s2":   "used: The node film uses the result of used: skip that one, too, and first.\nDone before it:\n  shots.s1 is skipped",
			"workflows skip wfl_x shots.s1 --no-such-thing": "unknown flag",
		} {
			status, out, errs := call(t, t.Context(), append(args, strings.Fields(flags)...)...)
			require.NotZero(t, status, flags)
			require.Contains(t, errs, says)
			require.Empty(t, out)
		}
	})

	t.Run("RefusesFilesThatAreNoWorkflow", func(t *testing.T) {
		t.Parallel()
		s, args := serveScreeningRoom(t)
		for text, says := range map[string]string{
			"":                         "the file is empty",
			"name: x":                  "the workflow has no jobs",
			"{}":                       "the workflow has no jobs",
			"name: x\njobs:\n- ky: a":  `:3: unknown field "ky"; did you mean key?`,
			"name: x\njobs:\n- key: a": ":3: the node a needs a job",
			"name: x\njobs:\n- key: a\n  job: {promt: x}":                          `:3: the job of the node a: a submission has no field "promt"`,
			"name: x\njobs:\n- key: a\n  onParentFailure: STOP\n  job: {model: x}": "onParentFailure of the node a is STOP: it must be CASCADE, CONTINUE or RETRY_PARENT",
			`{"jobs": [{"key": "a", "job": {"priority": "high"}}]}`:                "the job of the node a: priority must be a whole number",
			`{"jobs": [{"key": 5}]}`:                                               "jobs.key must be a text; it is a number",
			`{"nodes": []}`:                                                        `a workflow has no field "nodes"`,
			`{"Name": "x", "jobs": []}`:                                            `a workflow has no field "Name"; did you mean name?`,
			`{"jobs": [{"Key": "a"}]}`:                                             `a workflow has no field "Key"; did you mean key?`,
			"name: x\njobs:\n- key: a\n  job: {prompt: x, priority: 010}":          `:4: priority is 010, which some programs read as octal`,
			"name: caf\xe9":                                                        "line 1 is not valid UTF-8: save the file as UTF-8",
			"a: &a [x]\nb: *a":                                                     "anchors, aliases and tags of YAML are not supported",
			"# " + strings.Repeat("x", 10<<20):                                     "is longer than 10485760 bytes",
		} {
			status, _, errs := call(t, t.Context(), append(args, "workflows", "run", "-f", shots(t, text))...)
			require.Equal(t, 1, status)
			require.Contains(t, errs, says, text[:min(len(text), 100)])
		}
		require.Empty(t, s.submitted)
	})
}
