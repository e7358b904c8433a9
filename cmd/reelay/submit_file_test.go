package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// counter accepts bulk submits. It records the idempotency keys of each call, and refuses jobs
// of the model "gone".
type counter struct {
	mu    sync.Mutex
	calls [][]string
	// before is called with the number of each call, from 0 on.
	before func(call int) bool
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Variables struct {
			Inputs []struct{ Model, IdempotencyKey string }
		}
	}
	_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before != nil && !c.before(len(c.calls)) {
		panic(http.ErrAbortHandler)
	}
	var keys, results []string
	for _, in := range request.Variables.Inputs {
		keys = append(keys, in.IdempotencyKey)
		result := fmt.Sprintf(`{"job":{"id":"job_%s"}}`, in.IdempotencyKey)
		if in.Model == "gone" {
			result = `{"error":{"code":"INVALID_INPUT","message":"there is no such model"}}`
		}
		results = append(results, result)
	}
	c.calls = append(c.calls, keys)
	fmt.Fprintf(w, `{"data":{"submitJobs":{"results":[%s]}}}`, strings.Join(results, ","))
}

func serveCounter(t *testing.T) (*counter, []string) {
	t.Helper()
	c := &counter{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, []string{"submit", "--endpoint", server.URL, "--key", "k"}
}

func shots(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shots.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestSubmitFile(t *testing.T) {
	t.Parallel()

	t.Run("SendsPagesUpToAThousandJobsOrAMebibyte", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		many := strings.Repeat(`{"prompt":"a fox"}`+"\n", 2500) + strings.Repeat(`{"prompt":"`+strings.Repeat("x", 40_000)+`"}`+"\n", 50)

		status, out, errs := call(t, t.Context(), append(args, "--file", shots(t, many))...)

		require.Zero(t, status, errs)
		require.Len(t, strings.Fields(out), 2550)
		require.Len(t, c.calls[0], 1000)
		keys := map[string]bool{}
		for _, call := range c.calls {
			for _, key := range call {
				keys[key] = true
			}
		}
		require.Len(t, keys, 2550, "equal lines are jobs of their own")
		require.Contains(t, errs, "1000 accepted, 0 refused")
	})

	t.Run("DerivesTheSameKeysForTheSameSubmissions", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		lines := shots(t, "{\"prompt\": \"a fox\"}\n\n{\"prompt\":\"an owl\",\"idempotencyKey\":\"mine\"}\n")
		array := shots(t, `[{"prompt": "an owl", "idempotencyKey": "mine"}, {"model": "testcard", "prompt": "a fox"}]`)
		for _, more := range [][]string{{"--file", lines}, {"--file", array}, {"--file", lines, "--idempotency-key", "again"}} {
			status, _, errs := call(t, t.Context(), append(args, more...)...)
			require.Zero(t, status, errs)
		}

		require.Equal(t, c.calls[0][0], c.calls[1][1])
		require.NotEqual(t, c.calls[0][0], c.calls[2][0])
		require.Equal(t, []string{"mine", "mine"}, []string{c.calls[0][1], c.calls[1][0]})
	})

	t.Run("ReportsEachInvalidLineAndContinues", func(t *testing.T) {
		t.Parallel()
		_, args := serveCounter(t)
		file := shots(t, `{"prompt":"a fox"}
{"prompt":
{"promt":"a typo"}
{"prompt":"an owl","model":"gone"}
{"prompt":"a hare"} {}
{"prompt":"a crow"}`)

		status, out, errs := call(t, t.Context(), append(args, "--file", file, "--json")...)

		require.Equal(t, 1, status)
		require.Contains(t, errs, "4 of 6 were refused")
		var report batchReport
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		require.Equal(t, 2, report.Accepted)
		require.Equal(t, 4, report.Rejected)
		for i, refused := range []bool{false, true, true, true, true, false} {
			require.Equal(t, i+1, report.Results[i].Line)
			require.Equal(t, refused, report.Results[i].Error != nil, "line %d", i+1)
			require.Equal(t, refused, report.Results[i].JobID == "", "line %d", i+1)
		}
		require.Contains(t, report.Results[2].Error.Message, "promt")
		require.NotContains(t, errs, "json:")
	})

	t.Run("ExplainsWhatIsWrongWithALine", func(t *testing.T) {
		t.Parallel()
		_, args := serveCounter(t)
		for line, says := range map[string]string{
			`{"prompt": 5}`:                           "prompt must be a string; it is of the kind number",
			`{"priority": "high"}`:                    "priority must be a whole number; it is of the kind string",
			`{"priority": 1.5}`:                       "priority must be a whole number; it is of the kind number 1.5",
			`{"retry": {"initialDelaySeconds": "5"}}`: "retry.initialDelaySeconds must be a number; it is of the kind string",
			`{"retry": {"delay": 5}}`:                 `a submission has no field "delay"`,
			`{"dependsOn": "job_1"}`:                  "dependsOn must be a list; it is of the kind string",
			`{"runAt": "tomorrow"}`:                   "runAt must be a time as in 2027",
			`{"runAt": 5}`:                            "runAt must be a time as in 2027",
			`{"promt": "x"}`:                          `a submission has no field "promt"`,
			`{"prompt": "x", "prompt": "y"}`:          `the key "prompt" occurs twice`,
			`{"prompt": "x"`:                          "its JSON is incomplete",
			`{"prompt": x}`:                           "it is not valid JSON: invalid character 'x'",
			`{"prompt": "x"} {}`:                      "there is text after the JSON document",
			`"a fox"`:                                 "it must be a JSON object",
			`null`:                                    "it must be a JSON object",
		} {
			status, _, errs := call(t, t.Context(), append(args, "--file", shots(t, "\n"+line+"\n"))...)

			require.Equal(t, 1, status, line)
			require.Contains(t, errs, "line 2: INVALID_INPUT: This is not a submission: "+says, line)
		}
	})

	t.Run("ShowsHowToContinueAfterAnInterruption", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, args := serveCounter(t)
		c.before = func(call int) bool {
			if call == 1 {
				cancel()
			}
			return call < 1
		}

		status, out, errs := call(t, ctx, append(args, "--file", shots(t, strings.Repeat(`{"prompt":"a fox"}`+"\n", 1500)))...)

		require.Equal(t, exitInterrupted, status)
		require.Len(t, strings.Fields(out), 1000)
		require.Contains(t, errs, "The submissions from line 1001 on may have been accepted. Run the same command again")
	})

	t.Run("RefusesMalformedInput", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		for text, says := range map[string]string{
			"":                         "has no submissions",
			"[]":                       "has no submissions",
			`[{"prompt":"a fox"}, {]`:  "element 2: it is not valid JSON: invalid character",
			strings.Repeat("x", 1<<20): "line 1: it is longer than 256 kB",
			`[{"prompt":"a fox"}, {"prompt":"` + strings.Repeat("x", 2<<20) + `"}]`: "element 2: it is longer than 256 kB",
		} {
			status, _, errs := call(t, t.Context(), append(args, "--file", shots(t, text))...)

			require.Equal(t, 1, status)
			require.Contains(t, errs, says)
		}
		require.Len(t, c.calls, 2, "what came before the fault")
		for _, endless := range [][]string{{"--file", "/dev/zero"}, {"--prompt-file", "/dev/zero"}, {"--prompt", "x", "--image", "/dev/zero"}} {
			status, _, errs := call(t, t.Context(), append(args, endless...)...)
			require.NotZero(t, status, errs)
			require.Contains(t, errs, "/dev/zero")
		}
		require.Len(t, c.calls, 2)
		status, _, errs := call(t, t.Context(), append(args, "--file", shots(t, "{}"), "--prompt", "x")...)
		require.Equal(t, exitUsage, status)
		require.Contains(t, errs, "--prompt cannot be used with --file")
	})
}
