package moderation_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/adapters/moderation"
	"github.com/reelay/reelay/features/doctor"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/stretchr/testify/require"
)

// secret is in each question, and must be in no error and no log.
const secret = "hunter2 in the rain"

var logged struct {
	sync.Mutex
	bytes.Buffer
}

type log struct{}

func (log) Write(p []byte) (int, error) {
	logged.Lock()
	defer logged.Unlock()
	return logged.Buffer.Write(p)
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(log{}, nil)))
	jobstest.Main(m)
}

func requireNotLogged(t *testing.T, words ...string) {
	t.Helper()
	logged.Lock()
	defer logged.Unlock()
	for _, word := range words {
		require.NotContains(t, logged.String(), word)
	}
}

// outcomes counts what a hook observes.
type outcomes struct {
	sync.Mutex
	n map[submit.Moderation]int
}

func (o *outcomes) observe(m submit.Moderation, _ time.Duration) {
	o.Lock()
	defer o.Unlock()
	if o.n == nil {
		o.n = map[submit.Moderation]int{}
	}
	o.n[m]++
}

// ask asks about one content.
func ask(t *testing.T, url string, change ...func(*moderation.Config)) (map[submit.Moderation]int, error) {
	t.Helper()
	var seen outcomes
	config := moderation.Config{URL: url, Timeout: 2 * time.Second, Observe: seen.observe}
	for _, f := range change {
		f(&config)
	}
	answers := moderation.New(config).Moderate(t.Context(), []submit.Content{{Prompt: secret, Params: []byte(`{}`)}})
	require.Len(t, answers, 1)
	return seen.n, answers[0]
}

func open(c *moderation.Config) { c.Open = true }

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func says(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }
}

func TestRudeServer(t *testing.T) {
	t.Parallel()

	allows := serve(t, says(`{"allowed": true}`))
	gone := httptest.NewServer(nil)
	gone.Close()
	secure := httptest.NewTLSServer(says(`{"allowed": true}`))
	t.Cleanup(secure.Close)
	hurry := func(c *moderation.Config) { c.Timeout = 100 * time.Millisecond }
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		url     string
		change  func(*moderation.Config)
	}{
		"silent": {handler: func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, change: hurry},
		"silent after the head": {handler: func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, `{"allowed": true`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, change: hurry},
		"cut off": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"allowed": true}`)
		}},
		"hangs up": {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"10 MB": {handler: func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"allowed": true, "reason": "`+strings.Repeat("a", 10<<20)+`"}`)
		}},
		"over 64 KiB": {handler: says(`{"allowed": true}` + strings.Repeat(" ", 64<<10))},
		"large head": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("a", 64<<10))
			io.WriteString(w, `{"allowed": true}`)
		}},
		"redirect": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, allows, http.StatusTemporaryRedirect)
		}},
		"server error": {handler: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"allowed": true}`, http.StatusInternalServerError)
		}},
		"client error":    {handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"allowed": true}`, http.StatusForbidden) }},
		"no content":      {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
		"compressed":      {handler: says("\x1f\x8b\x08\x00")},
		"empty":           {handler: says("")},
		"HTML":            {handler: says("<html>allowed</html>")},
		"null":            {handler: says("null")},
		"a list":          {handler: says(`[{"allowed": true}]`)},
		"nothing said":    {handler: says("{}")},
		"a text":          {handler: says(`{"allowed": "true"}`)},
		"a number":        {handler: says(`{"allowed": 1}`)},
		"allowed is null": {handler: says(`{"allowed": null}`)},
		"another case":    {handler: says(`{"Allowed": true}`)},
		"twice":           {handler: says(`{"allowed": true, "allowed": false}`)},
		"two answers":     {handler: says(`{"allowed": true}{"allowed": false}`)},
		"not UTF-8":       {handler: says("{\"allowed\": true, \"reason\": \"\xff\"}")},
		"deep":            {handler: says(`{"allowed": true, "x": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`)},
		"wrong reason":    {handler: says(`{"allowed": false, "reason": ["a"]}`)},
		"not there":       {url: gone.URL},
		"another TLS":     {url: secure.URL},
		"no TLS":          {url: strings.Replace(allows, "http:", "https:", 1)},
		"malformed":       {url: "http://%zz:hunter2@host"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := c.url
			if c.handler != nil {
				url = serve(t, c.handler)
			}
			change := c.change
			if change == nil {
				change = func(*moderation.Config) {}
			}

			seen, err := ask(t, url, change)

			jobstest.RequireCode(t, err, apierror.CodeUnavailable)
			refused := submit.Refusal(err)
			require.Equal(t, 5, refused.RetryAfterSeconds)
			require.NotContains(t, refused.Message, "hunter2")
			require.NotContains(t, refused.Message, "127.0.0.1")
			require.Equal(t, map[submit.Moderation]int{submit.Failed: 1}, seen)

			seen, err = ask(t, url, change, open)

			require.NoError(t, err)
			require.Equal(t, map[submit.Moderation]int{submit.Unchecked: 1}, seen)
			requireNotLogged(t, "hunter2")
		})
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()

	const says403 = "The content policy of this installation does not allow this job"
	for answer, message := range map[string]string{
		`{"allowed": false}`: says403 + ". Change what it asks for.",
		`{"allowed": false, "reason": "It shows a face.", "category": "likeness"}`: says403 +
			" (likeness): It shows a face. Change what it asks for.",
		`{"allowed": false, "reason": null, "category": null, "score": 0.9}`:          says403 + ". Change what it asks for.",
		`{"allowed": false, "reason": "a\u001b[31mred\u001b[0m\n\n b\u0000\u202e\t"}`: says403 + ": ared b. Change what it asks for.",
	} {
		seen, err := ask(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }), open)

		jobstest.RequireCode(t, err, apierror.CodeContentPolicy)
		require.Equal(t, message, err.Error())
		require.Equal(t, map[submit.Moderation]int{submit.Refused: 1}, seen)
	}

	long := fmt.Sprintf(`{"allowed": false, "reason": %q, "category": %q}`, strings.Repeat("é", 20_000), strings.Repeat("c", 10_000))
	_, err := ask(t, serve(t, says(long)))
	require.Less(t, len(err.Error()), 750)
}

func TestQuestion(t *testing.T) {
	t.Parallel()

	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		io.WriteString(w, `{"allowed": true}`)
	})

	seen, err := ask(t, url, func(c *moderation.Config) { c.Secret = func() string { return "s3cret" } })

	require.NoError(t, err)
	require.Equal(t, map[submit.Moderation]int{submit.Allowed: 1}, seen)
	require.Equal(t, []string{"POST", "Bearer s3cret", "application/json"},
		[]string{got.Method, got.Header.Get("Authorization"), got.Header.Get("Content-Type")})
	require.JSONEq(t, `{"jobId": "", "accountId": "", "userId": "", "jobType": "", "model": "", "prompt": "`+secret+`", "negativePrompt": "",
		"params": {}, "inputs": null}`, string(body))
}

// A large call does not wait for a server that is down, nor asks more questions at once than are allowed.
func TestManyQuestions(t *testing.T) {
	t.Parallel()

	all := make([]submit.Content, 1000)
	for i := range all {
		all[i].Params = []byte("{}")
	}
	t.Run("Down", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		asked := 0
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			asked++
			mu.Unlock()
			w.WriteHeader(http.StatusBadGateway)
		})
		hook := moderation.New(moderation.Config{URL: url, Timeout: time.Second})

		for _, err := range hook.Moderate(t.Context(), all) {
			jobstest.RequireCode(t, err, apierror.CodeUnavailable)
		}

		require.LessOrEqual(t, asked, 3+16)
	})

	t.Run("Busy", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		now, most := 0, 0
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() {
				mu.Lock()
				now--
				mu.Unlock()
			}()
			data, _ := io.ReadAll(r.Body)
			io.WriteString(w, fmt.Sprintf(`{"allowed": %v}`, !bytes.Contains(data, []byte(`"no"`))))
		})
		some := slices.Clone(all)
		for i := range some {
			if i%3 == 0 {
				some[i].Prompt = "no"
			}
		}
		hook := moderation.New(moderation.Config{URL: url, Timeout: 10 * time.Second})
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				for i, err := range hook.Moderate(context.Background(), some) {
					if (err != nil) != (i%3 == 0) {
						t.Errorf("question %d: %v", i, err)
					}
				}
			})
		}
		calls.Wait()

		require.LessOrEqual(t, most, 64)
	})

	t.Run("CallerGone", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
		})
		var seen outcomes
		hook := moderation.New(moderation.Config{URL: url, Timeout: 10 * time.Second, Open: true, Observe: seen.observe})

		for _, err := range hook.Moderate(ctx, all[:20]) {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Empty(t, seen.n)
	})
}

func TestExamine(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		handler http.HandlerFunc
		open    bool
		level   doctor.Level
	}{
		"allowed":         {says(`{"allowed": true}`), false, doctor.LevelOK},
		"refused":         {says(`{"allowed": false}`), false, doctor.LevelOK},
		"broken":          {says(`no`), false, doctor.LevelBroken},
		"broken but open": {says(`no`), true, doctor.LevelAdvice},
	} {
		hook := moderation.New(moderation.Config{URL: serve(t, c.handler), Timeout: 10 * time.Second, Open: c.open})

		found := hook.Examine(t.Context())

		require.Len(t, found, 1, name)
		require.Equal(t, c.level, found[0].Level, "%s: %s", name, found[0].Found)
		require.Equal(t, "moderation", found[0].Check)
	}
}
