package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

// counter accepts bulk submits. It records the idempotency keys of each call, and refuses jobs
// of the model "gone".
type counter struct {
	mu    sync.Mutex
	calls [][]string
	// jobs are the accepted submissions by key, as they were sent.
	jobs map[string]json.RawMessage
	// room is how many more jobs are accepted, if it is set. It grows by refill with each refusal.
	room, refill *int
	// before is called with the number of each call, from 0 on.
	before func(call int) bool
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		OperationName string
		Variables     struct{ Inputs []json.RawMessage }
	}
	body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	_ = json.Unmarshal(body, &request)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch request.OperationName {
	case "models":
		io.WriteString(w, `{"data":{"models":[{"name":"ltx","paramsSchema":{"properties":{"code":{"type":"string"},"fps":{"type":"integer"},"guidance":{"type":"number"},"muted":{"type":"boolean"}}}},
			{"name":"testcard","paramsSchema":{"properties":{"style":{"type":"string"}}}},{"name":"wan","paramsSchema":{"properties":{"code":{"type":["string","null"]},"fps":{"type":"string"}}}}]}}`)
		return
	case "modelAliases":
		io.WriteString(w, `{"data":{"modelAliases":[{"name":"best","version":1,"models":[{"name":"ltx","weight":1},{"name":"wan","weight":1}]}]}}`)
		return
	case "submitJob":
		var request struct {
			Variables struct{ Input json.RawMessage }
		}
		_ = json.Unmarshal(body, &request)
		c.jobs["one"] = request.Variables.Input
		io.WriteString(w, `{"data":{"submitJob":{"job":{"id":"job_1"}}}}`)
		return
	case "jobTotals":
		fmt.Fprintf(w, `{"data":{"jobTotals":{"total":%d}}}`, len(c.jobs))
		return
	}
	if c.before != nil && !c.before(len(c.calls)) {
		panic(http.ErrAbortHandler)
	}
	var keys, results []string
	for _, text := range request.Variables.Inputs {
		var in struct{ Model, IdempotencyKey string }
		_ = json.Unmarshal(text, &in)
		keys = append(keys, in.IdempotencyKey)
		results = append(results, c.submit(in.Model, in.IdempotencyKey, text))
	}
	c.calls = append(c.calls, keys)
	fmt.Fprintf(w, `{"data":{"submitJobs":{"results":[%s]}}}`, strings.Join(results, ","))
}

func (c *counter) submit(model, key string, text json.RawMessage) string {
	before, there := c.jobs[key]
	switch {
	case there && string(before) != string(text):
		return `{"error":{"code":"IDEMPOTENCY_CONFLICT","message":"another request"}}`
	case there:
		return fmt.Sprintf(`{"job":{"id":"job_%s"},"deduplicated":true}`, key)
	case model == "gone":
		return `{"error":{"code":"INVALID_INPUT","message":"there is no such model"}}`
	case c.room != nil && *c.room == 0:
		*c.room = *c.refill
		return `{"error":{"code":"QUOTA_EXCEEDED","message":"The queue is full.","retryAfterSeconds":1}}`
	case c.room != nil:
		*c.room--
	}
	c.jobs[key] = text
	return fmt.Sprintf(`{"job":{"id":"job_%s"}}`, key)
}

func serveCounter(t *testing.T) (*counter, []string) {
	t.Helper()
	c := &counter{jobs: map[string]json.RawMessage{}}
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
		require.Len(t, c.jobs, 2550, "equal lines are jobs of their own")
		for _, call := range c.calls {
			require.LessOrEqual(t, len(call), 1000)
		}
		require.Contains(t, errs, "2550 submitted\n")
		require.Contains(t, errs, "Follow it with: reelay batch shots\n")
		require.Contains(t, errs, "/jobs?q=meta%3Abatch%3Dshots\n")
	})

	t.Run("DerivesTheSameKeysForTheSameSubmissions", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		lines := shots(t, "{\"prompt\": \"a fox\"}\n\n{\"prompt\":\"an owl\",\"idempotencyKey\":\"mine\"}\n")
		array := shots(t, `[{"prompt": "an owl", "idempotencyKey": "mine"}, {"model": "testcard", "prompt": "a fox"}]`)
		for _, more := range [][]string{{"--file", lines, "--batch", "b"}, {"--file", array, "--batch", "b"},
			{"--file", lines, "--batch", "again"}} {
			status, _, errs := call(t, t.Context(), append(args, more...)...)
			require.Equal(t, slices.Contains(more, "again"), status != 0, errs)
		}

		require.Equal(t, c.calls[0][0], c.calls[1][1])
		require.NotEqual(t, c.calls[0][0], c.calls[2][0])
		require.Equal(t, []string{"mine", "mine"}, []string{c.calls[0][1], c.calls[1][0]})
		require.JSONEq(t, `{"model":"testcard","prompt":"a fox","metadata":{"batch":"b"},"idempotencyKey":"`+c.calls[0][0]+`"}`,
			string(c.jobs[c.calls[0][0]]))
	})

	t.Run("SubmitsOnlyWhatIsMissing", func(t *testing.T) {
		t.Parallel()
		_, args := serveCounter(t)
		file := shots(t, "{\"prompt\":\"a\"}\n{\"prompt\":\"b\",\"model\":\"gone\"}\n{\"prompt\":\"c\",\"idempotencyKey\":\"k\"}\n")
		status, _, errs := call(t, t.Context(), append(args, "--file", file)...)
		require.Equal(t, 1, status)
		require.Contains(t, errs, "2 submitted, 1 refused")

		require.NoError(t, os.WriteFile(file,
			[]byte("{\"prompt\":\"new\"}\n{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n{\"prompt\":\"c, changed\",\"idempotencyKey\":\"k\"}\n"), 0o600))
		status, _, errs = call(t, t.Context(), append(args, "--file", file)...)

		require.Equal(t, 1, status)
		require.Contains(t, errs, "2 submitted, 1 was there already, 1 refused")
		require.Contains(t, errs, "line 4: IDEMPOTENCY_CONFLICT: The key k belongs to another submission: this one was changed since")

		require.NoError(t, os.WriteFile(file, []byte("{\"prompt\":\"a\"}\n"), 0o600))
		status, _, errs = call(t, t.Context(), append(args, "--file", file)...)

		require.Zero(t, status, errs)
		require.Contains(t, errs, "The batch shots has 3 other jobs, which this file does not have")
	})

	t.Run("WaitsWhileThereIsNoRoom", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		c.room, c.refill = new(2), new(10)

		status, out, errs := call(t, t.Context(), append(args, "--file", shots(t, strings.Repeat(`{"prompt":"a fox"}`+"\n", 5)))...)

		require.Zero(t, status, errs)
		require.Len(t, strings.Fields(out), 5)
		require.Len(t, c.calls, 2)
		require.Len(t, c.jobs, 5)
	})

	t.Run("CountsTheJobsOfAPageThatWaits", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, args := serveCounter(t)
		c.room, c.refill = new(2), new(0)
		c.before = func(call int) bool {
			if call == 2 {
				cancel()
			}
			return true
		}

		status, _, errs := call(t, ctx, append(args, "--file", shots(t, strings.Repeat(`{"prompt":"a fox"}`+"\n", 5)))...)

		require.Equal(t, terminal.ExitInterrupted, status)
		require.Contains(t, errs, "2 submitted\n")
	})

	t.Run("KeepsARejectedCopy", func(t *testing.T) {
		t.Parallel()
		_, args := serveCounter(t)
		kept := filepath.Join(t.TempDir(), "rejected")
		args = append(args, "--rejected", kept, "--json", "--file")

		status, _, errs := call(t, t.Context(), append(args, shots(t, "{\"prompt\":\"a\"}\n{\"promt\":\"b\"}\n"))...)
		require.Equal(t, 1, status)
		require.Contains(t, errs, "Correct them ("+kept+" has a copy) and run")
		again, _, errs := call(t, t.Context(), append(args, shots(t, "{}"))...)
		text, err := os.ReadFile(kept)

		require.NoError(t, err)
		require.Equal(t, "{\"promt\":\"b\"}\n", string(text))
		require.Equal(t, 1, again)
		require.Contains(t, errs, "exists: choose another file, or replace it with --force")
		_, _, errs = call(t, t.Context(), append(args, csvFile(t, "prompt,model\n\"a, b\",gone\nx\n"), "--force")...)
		require.Contains(t, errs, "2 of 2 were refused")
		text, err = os.ReadFile(kept)
		require.NoError(t, err)
		require.Equal(t, "prompt,model\n\"a, b\",gone\nx\n", string(text))
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
		require.NotContains(t, errs, "submitted", "nothing but the results")
		var report struct {
			Accepted, Rejected int
			Results            []struct {
				Line  int
				JobID string
				Error *client.SubmissionRefusal
			}
		}
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

	t.Run("ContinuesAfterAnInterruption", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c, args := serveCounter(t)
		c.before = func(call int) bool {
			if call == 2 {
				cancel()
			}
			return call != 2
		}
		file := shots(t, strings.Repeat(`{"prompt":"a fox"}`+"\n", 9500))

		status, _, errs := call(t, ctx, append(args, "--file", file)...)

		require.Equal(t, terminal.ExitInterrupted, status)
		require.Contains(t, errs, "may have been accepted. Run the same command again to continue: it submits only what is missing")
		c.before = nil
		there := len(c.jobs)
		require.Less(t, there, 9500)
		status, _, errs = call(t, t.Context(), append(args, "--file", file)...)
		require.Zero(t, status, errs)
		require.Len(t, c.jobs, 9500)
		require.Contains(t, errs, fmt.Sprintf("%d submitted, %d were there already", 9500-there, there))
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
		require.Equal(t, terminal.ExitUsage, status)
		require.Contains(t, errs, "--prompt cannot be used with --file")
		for flags, says := range map[string]string{
			"--format xml":            "--format is \"xml\": it must be csv or jsonl",
			"--batch a/b":             "--batch is \"a/b\"",
			"--idempotency-key again": "--idempotency-key cannot be used with --file",
		} {
			status, _, errs := call(t, t.Context(), append(append(args, "--file", shots(t, "{}")), strings.Fields(flags)...)...)
			require.Equal(t, terminal.ExitUsage, status)
			require.Contains(t, errs, says)
		}
		status, _, errs = call(t, t.Context(), append(args, "--prompt", "x", "--batch", "b")...)
		require.Equal(t, terminal.ExitUsage, status)
		require.Contains(t, errs, "--batch goes with --file only")
	})
}

func csvFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shots.csv")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestSubmitCSV(t *testing.T) {
	t.Parallel()

	t.Run("MakesASubmissionOfEachRow", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		file := csvFile(t, "\ufeffprompt,model, tier ,priority,userId,runAt,idempotencyKey,dependsOn,retry.backoff,draft.steps,params.seed,params.aspectRatio,params.code,metadata.shot,params.list\r\n"+
			"\"a \"\"red\"\" fox,\r\nrunning\",ltx,pro,5,42,2027-01-02T15:04:05Z,k1,job_1 job_2,fixed,4,7,16:9,0123,1,\"[1, 2]\"\r\n"+
			",,,,,,,,,,,,,,\r\n"+
			"true,,,,,,k2,,,,,,,true,\r\n")

		status, _, errs := call(t, t.Context(), append(args, "--file", file, "--batch", "b")...)

		require.Zero(t, status, errs)
		require.Len(t, c.jobs, 2)
		require.JSONEq(t, `{"prompt": "a \"red\" fox,\nrunning", "model": "ltx", "tier": "PRO", "priority": 5, "userId": "42", "runAt": "2027-01-02T15:04:05Z", "idempotencyKey": "k1",
			"dependsOn": ["job_1", "job_2"], "retry": {"backoff": "FIXED"}, "draft": {"steps": 4},
			"params": {"seed": 7, "aspectRatio": "16:9", "code": "0123", "list": [1, 2]}, "metadata": {"batch": "b", "shot": 1}}`,
			string(c.jobs["k1"]))
		require.JSONEq(t, `{"prompt": "true", "model": "testcard", "idempotencyKey": "k2", "metadata": {"batch": "b", "shot": true}}`,
			string(c.jobs["k2"]))
	})

	t.Run("ListsBadRowsWithTheirLines", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		file := csvFile(t, "prompt,priority,metadata.batch\n\"two\nlines\",,\na fox\na fox,high,\na \"fox,1,\na fox,1,other\na f\xfex,1,\na fox,1,shots\n")

		status, out, errs := call(t, t.Context(), append(args, "--file", file)...)

		require.Equal(t, 1, status)
		require.Len(t, strings.Fields(out), 2)
		require.Len(t, c.jobs, 2)
		for _, says := range []string{
			"line 4: INVALID_INPUT: This is not a submission: it has 1 cell, and the header has 3",
			"line 5: INVALID_INPUT: This is not a submission: priority must be a whole number",
			"line 6: INVALID_INPUT: This is not a submission: its quotation marks are wrong",
			"line 7: INVALID_INPUT: This is not a submission: metadata.batch is \"other\"",
			"line 8: INVALID_INPUT: This is not a submission: it is not valid UTF-8", "5 of 7 were refused",
		} {
			require.Contains(t, errs, says)
		}
	})

	t.Run("RefusesFilesThatAreNoTableOfSubmissions", func(t *testing.T) {
		t.Parallel()
		c, args := serveCounter(t)
		for text, says := range map[string]string{
			"":                     "has no submissions",
			"prompt\n":             "has no submissions",
			"promt\na fox\n":       "line 1: there is no column \"promt\"; did you mean prompt? The columns are atMostOnce,",
			"prompt,colour\n":      "there is no column \"colour\". The columns are",
			"prompt;model\n":       "has no submissions",
			"prompt;modell\na;b\n": "there is no column \"modell\"; did you mean model?",
			"prompt,prompt\n":      "there are two columns named prompt",
			"prompt,\n,x\n":        "line 2: INVALID_INPUT: This is not a submission: column 2 has no name, and its cell is \"x\"",
			"params\n":             "there is no column \"params\"",
			"params.\n":            "there is no column \"params.\"",
			"\"prompt\n":           "line 1: ",
			"prompt\ra fox\r":      "its lines end as on old Macs",
			"prompt,metadata.shot\ra fox,1\rthe sea,2\r": "its lines end as on old Macs",
			"\xff\xfep\x00":                "it is in UTF-16: save it as UTF-8 (spreadsheets call it CSV UTF-8)",
			"p\x00r\x00":                   "it is in UTF-16: save it as UTF-8",
			strings.Repeat("prompt,", 300): "there are 301 columns",
			"prompt\na fox\n\"" + strings.Repeat("x\n",
				1<<20): "line 3: the row is longer than 256 kB: a quotation mark may not be closed; nothing from there on was submitted",
		} {
			status, _, errs := call(t, t.Context(), append(args, "--file", csvFile(t, text))...)

			require.Equal(t, 1, status, errs)
			require.Contains(t, errs, says)
		}
		require.Len(t, c.jobs, 1)
	})
}

func TestBatch(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		total := `{"total":0,"statuses":[],"failures":[],"percent":0,"estimatedEndAt":null,"partly":false}`
		if strings.Contains(string(body), `"search":"meta:batch=shots"`) {
			total = `{"total":10,"statuses":[{"status":"QUEUED","jobs":4},{"status":"FAILED","jobs":6}],"failures":[{"failureClass":"TIMEOUT","jobs":6}],"percent":60.5,"estimatedEndAt":"2200-01-01T00:00:00Z","partly":true}`
		}
		fmt.Fprintf(w, `{"data":{"jobTotals":%s}}`, total)
	}))
	t.Cleanup(server.Close)
	args := []string{"--endpoint", server.URL, "--key", "k"}

	status, out, errs := call(t, t.Context(), append(args, "batch", "shots")...)

	require.Zero(t, status, errs)
	for _, says := range []string{"batch      shots\n", "10 jobs, and more that were not counted: 4 queued, 6 failed\n",
		"done        60 % ████████████████████████░", "failed     6 TIMEOUT\n", "ends       in about", server.URL +
			"/jobs?q=meta%3Abatch%3Dshots\n"} {
		require.Contains(t, out, says)
	}
	_, out, _ = call(t, t.Context(), append(args, "batch", "shots", "--jq", ".failures[0].failureClass")...)
	require.Equal(t, "TIMEOUT\n", out)
	status, _, errs = call(t, t.Context(), append(args, "batch", "none")...)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "there is no batch none")
	status, _, errs = call(t, t.Context(), append(args, "batch", "a b")...)
	require.Equal(t, terminal.ExitUsage, status)
	require.Contains(t, errs, "is not the name of a batch")
}
