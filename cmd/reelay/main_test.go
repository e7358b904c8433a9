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
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/stretchr/testify/require"
)

// call executes a command line and returns its exit status and output.
func call(t *testing.T, ctx context.Context, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = execute(ctx, args, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// faulty answers submits with the functions in turn, repeats the last one, and records the
// idempotency keys and the times.
type faulty struct {
	mu      sync.Mutex
	answers []http.HandlerFunc
	keys    []string
	times   []times
}

// times are those of a submit.
type times struct{ FinishBy, RunAt, ExpiresAt time.Time }

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Variables struct {
			Input struct {
				times
				IdempotencyKey string `json:"idempotencyKey"`
			} `json:"input"`
		} `json:"variables"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.keys = append(f.keys, request.Variables.Input.IdempotencyKey)
	f.times = append(f.times, request.Variables.Input.times)
	answer := f.answers[0]
	if len(f.answers) > 1 {
		f.answers = f.answers[1:]
	}
	f.mu.Unlock()
	answer(w, r)
}

// received returns the recorded idempotency keys.
func (f *faulty) received() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.keys)
}

// alarm rings when the output reports a wait.
type alarm struct {
	strings.Builder
	ring func()
}

func (a *alarm) Write(told []byte) (int, error) {
	if strings.Contains(string(told), "waiting for") {
		a.ring()
	}
	return a.Builder.Write(told)
}

func broken(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func accepted(w http.ResponseWriter, _ *http.Request) {
	w.Write([]byte(`{"data":{"submitJob":{"job":{"id":"job_1","status":"QUEUED","progress":{"phase":"WAITING"}}}}}`))
}

func serveFaulty(t *testing.T, answers ...http.HandlerFunc) (*faulty, string) {
	f := &faulty{answers: answers}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

func TestExecute(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		args   []string
		status int
		says   string
	}{
		"ShowsHelp":                      {[]string{"--help"}, 0, ""},
		"ShowsHelpWithoutACommand":       {nil, 0, ""},
		"RefusesAnUnknownCommand":        {[]string{"sumbit"}, 2, "did you mean submit?"},
		"SuggestsTheNearestCommand":      {[]string{"lst"}, 2, "did you mean list?"},
		"SuggestsWhatOtherToolsCallRm":   {[]string{"rm"}, 2, "did you mean cancel?"},
		"SuggestsWhatOtherToolsCallPs":   {[]string{"ps"}, 2, "did you mean list?"},
		"SuggestsASubcommand":            {[]string{"keys", "rm"}, 2, "did you mean revoke?"},
		"SuggestsNothingForADistantWord": {[]string{"synchronise"}, 2, `there is no command "synchronise"` + "\n"},
		"SuggestsNothingForAnotherWord":  {[]string{"sync"}, 2, `there is no command "sync"` + "\n"},
		"AcceptsACertificateFile": {[]string{"list", "--ca-file", "/nowhere.pem", "--endpoint", "https://127.0.0.1:1", "--key", "rl_x"},
			1, "/nowhere.pem"},
		"RefusesAnUnknownFlag":         {[]string{"list", "--frist", "3"}, 2, "unknown flag: --frist; did you mean --first?"},
		"SuggestsNoDistantFlag":        {[]string{"list", "--colour"}, 2, "unknown flag: --colour\n"},
		"RefusesAMissingURL":           {[]string{"webhooks", "create"}, 2, "URL is missing"},
		"RefusesTwoNames":              {[]string{"pools", "show", "a", "b"}, 2, `there are 2 arguments, "a b": give NAME`},
		"RefusesTooShortAWatch":        {[]string{"list", "--watch=0s"}, 2, `--watch is "0s": it must be a duration from 1s to 1h`},
		"RefusesAnEmptyChoice":         {[]string{"keys", "create"}, 2, "--role is missing: it must be client, worker"},
		"SendsQueriesElsewhere":        {[]string{"api", "{ version }"}, 2, "send a query with `reelay graphql`"},
		"SendsQueriesOfAFlagElsewhere": {[]string{"api", "-f", "query={ version }"}, 2, "send a query with `reelay graphql`"},
		"RefusesAWordAsAnID": {[]string{"get", "nonsense", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x"}, 1,
			`"nonsense" is not the id of a job`},
		"RefusesTooShortAnID": {[]string{"cancel", "0193", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x"}, 1,
			`"0193" is too short: give at least the first 6 digits`},
		"RefusesAQuarantineWithoutAReason": {[]string{"workers", "quarantine", "wrk_1", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x"}, 2,
			"--reason is missing"},
		"NamesAnUnknownHost": {[]string{"list", "--endpoint", "http://reelay.invalid", "--key", "rl_x"}, 1,
			"reelay.invalid cannot be reached: "},
		"RefusesAFlagWithoutItsValue":      {[]string{"list", "--first"}, 2, "--first needs a value"},
		"RefusesAValueOutOfRange":          {[]string{"list", "--first", "-1"}, 2, "must be from 1 to 200"},
		"RefusesAValueOfTheWrongType":      {[]string{"list", "--first", "many"}, 2, `--first is "many": it must be a whole number`},
		"RefusesAWordAsANumber":            {[]string{"submit", "--duration", "abc"}, 2, `--duration is "abc": it must be a number` + "\n"},
		"RefusesTheHelpOfAnUnknownCommand": {[]string{"bogus", "--help"}, 2, `there is no command "bogus"`},
		"RefusesTheHelpOfASubcommand":      {[]string{"keys", "bogus", "-h"}, 2, `there is no command "bogus"`},
		"RefusesAnUnknownCommandWithFlags": {[]string{"queue", "pause", "pro", "--reason", "x"}, 2, `did you mean queues?`},
		"ShowsTheHelpOfACommand":           {[]string{"list", "--help"}, 0, ""},
		"RefusesAFlagOfAnotherTool":        {[]string{"submit", "--prompt", "x", "--count=-1"}, 2, "unknown flag: --count"},
		"RefusesATimeWithoutAUnit": {[]string{"agent", "--stop-grace=1"}, 2,
			`--stop-grace is "1": it must be a duration such as 30s, 10m or 2h`},
		"RefusesATimeOfAnUnknownUnit":   {[]string{"agent", "--stop-grace=1y"}, 2, "it must be a duration such as 30s, 10m or 2h"},
		"RefusesAnIntegerThatOverflows": {[]string{"list", "--first", "9223372036854775808"}, 2, "out of range"},
		"RefusesAnUnknownStatus":        {[]string{"list", "--status", "asleep"}, 2, "queued"},
		"RefusesAMissingArgument":       {[]string{"get"}, 2, "the id of one job"},
		"RefusesAnExtraArgument":        {[]string{"audit", "x"}, 2, "`reelay audit` takes no arguments, but got \"x\""},
		"RefusesASubmitWithoutAPrompt":  {[]string{"submit"}, 2, "there is no prompt"},
		"RefusesAPromptThatIsNotUTF8":   {[]string{"submit", "--prompt", "a\xff"}, 2, "not valid UTF-8"},
		"RefusesAPriceThatIsNotANumber": {[]string{"submit", "--prompt", "x", "--max-price-per-hour", "NaN"}, 2,
			"--max-price-per-hour must be from 0 to 10000 USD; it is NaN"},
		"RefusesATimeWithoutAZone": {[]string{"submit", "--prompt", "x", "--finish-by", "2027-01-02T15:04:05"}, 2,
			"must be a time with its zone, such as 2027-01-02T15:04:05Z"},
		"RefusesANumberAsATime": {[]string{"submit", "--prompt", "x", "--finish-by", "2"}, 2,
			"or a duration from now, such as 2h or 90m"},
		"RefusesADurationOfNothing": {[]string{"submit", "--prompt", "x", "--expires-at", "0"}, 2,
			"or a duration from now, such as 2h or 90m"},
		"RefusesADurationBeforeNow": {[]string{"submit", "--prompt", "x", "--run-at", "-1h"}, 2, `--run-at is "-1h": it must be a time`},
		"RefusesAWordAsATime": {[]string{"submit", "--prompt", "x", "--expires-at", "tomorrow"}, 2,
			"or a duration from now, such as 2h or 90m"},
		"RefusesAParameterThatIsNotANumber": {[]string{"submit", "--prompt", "x", "--pace", "NaN"}, 2, "finite number"},
		"FailsWithoutCredentials":           {[]string{"list", "--data", "/nowhere", "--endpoint", ""}, 1, "`reelay up`"},
		"FailsIfNothingAnswers": {[]string{"list", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x"}, 1,
			"is `reelay up` running?"},
		"WarnsOfAKeyThatOtherUsersCanSee": {[]string{"list", "--endpoint", "http://127.0.0.1:1", "--key", "rl_x"}, 1, "REELAY_API_KEY"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			status, _, errs := call(t, t.Context(), test.args...)

			require.Equal(t, test.status, status, errs)
			require.Contains(t, errs, test.says)
			require.NotContains(t, errs, "rl_x", "a key is never shown")
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()

	t.Run("SucceedsIfTheReaderClosesThePipe", func(t *testing.T) {
		t.Parallel()

		require.Zero(t, terminal.Report(os.Stderr, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}))
	})
}

func TestInterrupt(t *testing.T) {
	t.Parallel()

	ctx, interrupt := context.WithCancel(t.Context())
	_, url := serveFaulty(t, func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	})

	status, _, errs := call(t, ctx, "list", "--endpoint", url, "--key", "rl_x")

	require.Equal(t, 130, status)
	require.Equal(t, "reelay: interrupted before it finished\n", errs[strings.LastIndex(errs, "reelay: interrupted"):])
	require.NotContains(t, errs, "context canceled")
}

func TestAPIError(t *testing.T) {
	t.Parallel()

	const says = "Too many jobs wait. Try again in 2 s."

	err := connect.WithAdvice(&client.Error{Code: client.CodeUnavailable, Message: says, RetryAfter: 2 * time.Second})

	require.EqualError(t, err, says, "the server says when")

	err = connect.WithAdvice(&client.Error{Code: client.CodeUnauthenticated, Message: "send the header Authorization"})

	require.EqualError(t, err, "the key is missing, unknown or revoked: check REELAY_API_KEY or --key")
}

func TestSubmit(t *testing.T) {
	t.Parallel()

	sendJob := func(t *testing.T, ctx context.Context, url string, more ...string) (int, string, string) {
		return call(t, ctx, append([]string{"submit", "--prompt", "fox", "--endpoint", url, "--key", "rl_x"}, more...)...)
	}
	t.Run("SubmitsOnceThoughTheConnectionBreaks", func(t *testing.T) {
		t.Parallel()

		server, url := serveFaulty(t, broken, accepted)

		status, out, errs := sendJob(t, t.Context(), url)

		require.Zero(t, status, errs)
		require.Equal(t, "job_1\n", out)
		require.Len(t, server.received(), 2)
		require.NotEmpty(t, server.received()[0])
		require.Equal(t, server.received()[0], server.received()[1])
	})
	t.Run("ShowsTheIdempotencyKeyIfTheResultIsUnknown", func(t *testing.T) {
		t.Parallel()

		server, url := serveFaulty(t, broken)

		status, _, errs := sendJob(t, t.Context(), url)

		require.Equal(t, 1, status)
		require.Contains(t, errs, "--idempotency-key "+server.received()[0])
	})
	t.Run("TakesTimesAndDurationsFromNow", func(t *testing.T) {
		t.Parallel()

		server, url := serveFaulty(t, broken)
		started := time.Now()

		status, _, errs := sendJob(t, t.Context(), url, "--run-at", "2027-01-02T15:04:05+01:00", "--finish-by", "90m", "--expires-at", "2h")

		ended := time.Now()
		require.Equal(t, 1, status)
		server.mu.Lock()
		got := server.times[0]
		server.mu.Unlock()
		require.Equal(t, time.Date(2027, 1, 2, 14, 4, 5, 0, time.UTC), got.RunAt.UTC())
		require.WithinRange(t, got.FinishBy, started.Add(90*time.Minute-time.Second), ended.Add(90*time.Minute+time.Second))
		require.WithinRange(t, got.ExpiresAt, started.Add(2*time.Hour-time.Second), ended.Add(2*time.Hour+time.Second))
		require.Contains(t, errs, " and --finish-by "+got.FinishBy.Format(time.RFC3339)+" instead of 90m")
		require.Contains(t, errs, " and --expires-at "+got.ExpiresAt.Format(time.RFC3339)+" instead of 2h")
		require.NotContains(t, errs, "--run-at", "a time is the same in another command")
	})
	t.Run("ShowsTheIdempotencyKeyWhenInterrupted", func(t *testing.T) {
		t.Parallel()

		ctx, interrupt := context.WithCancel(t.Context())
		server, url := serveFaulty(t, func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		})

		status, _, errs := sendJob(t, ctx, url)

		require.Equal(t, terminal.ExitInterrupted, status)
		require.Contains(t, errs, "stopped before an answer came\nThe job may have been accepted.")
		require.Contains(t, errs, "--idempotency-key "+server.received()[0])
	})
	t.Run("ShowsTheProgressAndTheResult", func(t *testing.T) {
		t.Parallel()

		_, url := serveFaulty(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(`{"errors":[{"message":"It may submit 5 jobs a minute, and has.","extensions":{"code":"RATE_LIMITED","retryAfterSeconds":20}}]}`))
		})
		ctx, interrupt := context.WithCancel(t.Context())
		errs := &alarm{ring: interrupt}

		status := execute(ctx, []string{"submit", "--prompt", "fox", "--endpoint", url, "--key", "rl_x"}, io.Discard, errs)

		require.Equal(t, terminal.ExitInterrupted, status)
		require.Contains(t, errs.String(), "waiting for 20 s, then trying again: It may submit 5 jobs a minute, and has.\n")
		require.Contains(t, errs.String(), "reelay: stopped before a retry: It may submit 5 jobs a minute, and has.\nThe job was not accepted\n")
	})
	t.Run("DoesNotRetryARefusal", func(t *testing.T) {
		t.Parallel()

		for message, extensions := range map[string]string{
			"The prompt is empty.": `{"code":"INVALID_INPUT"}`, "The budget is spent.": `{"code":"BUDGET_EXCEEDED","retryAfterSeconds":20}`,
		} {
			server, url := serveFaulty(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"errors":[{"message":%q,"extensions":%s}]}`, message, extensions)
			})

			status, out, errs := sendJob(t, t.Context(), url)

			require.Equal(t, 1, status)
			require.Empty(t, out)
			require.Contains(t, errs, "reelay: "+message+"\n")
			require.NotContains(t, errs, "--idempotency-key")
			require.Len(t, server.received(), 1)
		}
	})
	t.Run("PrintsOneJSONDocument", func(t *testing.T) {
		t.Parallel()

		_, url := serveFaulty(t, accepted)

		_, out, _ := sendJob(t, t.Context(), url, "--json", "--idempotency-key", "mine")

		var answer struct {
			Job            struct{ ID string }
			IdempotencyKey string
		}
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		require.Equal(t, "job_1", answer.Job.ID)
		require.Equal(t, "mine", answer.IdempotencyKey)
	})
	t.Run("RefusesToReplaceAFileBeforeItSubmits", func(t *testing.T) {
		t.Parallel()

		server, url := serveFaulty(t, accepted)
		video := filepath.Join(t.TempDir(), "video.mp4")
		require.NoError(t, os.WriteFile(video, []byte("dear"), 0o600))

		status, _, errs := sendJob(t, t.Context(), url, "--output", video)

		require.Equal(t, 1, status)
		require.Contains(t, errs, "--force")
		require.Empty(t, server.received())
	})
}

func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()

	server := httptest.NewTLSServer(http.HandlerFunc(accepted))
	t.Cleanup(server.Close)

	status, _, errs := call(t, t.Context(), "models", "--endpoint", server.URL, "--key", "rl_x")

	require.Equal(t, 1, status)
	require.Contains(t, errs, "--ca-file")
}

func TestLists(t *testing.T) {
	t.Parallel()

	_, url := serveFaulty(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"data":{"models":[],"queues":[],"webhookEndpoints":[]}}`))
	})
	for _, args := range [][]string{{"models"}, {"queues"}, {"webhooks", "list"}} {
		status, out, errs := call(t, t.Context(), append(args, "--json", "--endpoint", url, "--key", "rl_x")...)

		require.Zero(t, status, errs)
		require.JSONEq(t, `{"items": [], "hasNextPage": false, "endCursor": null}`, out, args)
	}
}
