package httpcall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/httpcall"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// These variables make this test binary the runtime: for calls to this machine or without them,
// except to an address.
const (
	asRuntime = "REELAY_TEST_AS_HTTP"
	except    = "REELAY_TEST_EXCEPT"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(asRuntime); mode != "" {
		policy := outbound.Policy{AllowLoopback: mode == "loopback"}.Except(os.Getenv(except))
		if err := httpcall.Run(context.Background(), os.Stdin, os.Stdout, policy); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testrun.Main(m.Run)
}

func launch(t *testing.T, mode, own string) *runtime.Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := runtime.Launch(t.Context(), runtime.Config{Command: []string{self}, Env: append(os.Environ(), asRuntime+"="+mode, except+"="+
		own)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testrun.WaitLimit)
		defer cancel()
		require.NoError(t, p.Shutdown(ctx))
	})
	return p
}

func start(t *testing.T, p *runtime.Process, params map[string]any) {
	t.Helper()
	data, err := json.Marshal(params)
	require.NoError(t, err)
	require.NoError(t, p.Start(runtime.Start{Job: "job_7", Model: "http.call", Type: "http.call", Params: data, Workdir: t.TempDir()}))
}

// next returns the next message that is no progress.
func next(t *testing.T, p *runtime.Process) runtime.Message {
	t.Helper()
	for {
		select {
		case message, open := <-p.Messages():
			require.True(t, open, p.Tail())
			if _, progress := message.(*runtime.Progress); !progress {
				return message
			}
		case <-time.After(testrun.WaitLimit):
			require.Fail(t, "the runtime says nothing more", p.Tail())
		}
	}
}

type output struct {
	Status    int
	Headers   map[string]string
	Body      string
	Base64    bool
	Truncated bool
}

func call(t *testing.T, p *runtime.Process, params map[string]any) (o output) {
	t.Helper()
	start(t, p, params)
	result, ok := next(t, p).(*runtime.Result)
	require.True(t, ok)
	require.NoError(t, runtime.CheckJSON(result.Output, runtime.MaxOutput))
	require.NoError(t, json.Unmarshal(result.Output, &o))
	return o
}

func TestCall(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	begun := make(chan struct{}, 1)
	var calls atomic.Int64
	answers := map[string]string{
		"escape": `{"a":"x\u0000y"}`, "escaped": `{"a":"\\u0000","\\\u0000":1}`, "surrogate": `"\ud800"`, "quotes": `"\"'<&>`,
		"newline": "a\r\n\tb",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Set-Cookie", "session=secret")
			w.Header().Set("X-Long", strings.Repeat("é", 3000))
			fmt.Fprintf(w, "%s %s|%s|%s|%s", r.Method, body, r.Header.Get("X-Token"), r.Header.Get("Idempotency-Key"), r.Header.Get("Content-Type"))
		case "/long":
			fmt.Fprint(w, strings.Repeat("é", 40_000))
		case "/binary":
			_, _ = w.Write([]byte{0, 0xff})
		case "/text":
			_, _ = w.Write([]byte(answers[r.URL.RawQuery]))
		case "/heads":
			for i := range 60 {
				w.Header().Set(fmt.Sprintf("X-Head-%02d", i), strings.Repeat("<", 400))
			}
			_, _ = w.Write(bytes.Repeat([]byte{7}, 70_000))
		case "/breaks":
			if r.URL.RawQuery == "count" {
				calls.Add(1)
			}
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "ordered é"[:len("ordered é")-1])
		case "/redirect":
			http.Redirect(w, r, "/echo", http.StatusFound)
		case "/later":
			w.Header().Set("Retry-After", "77")
			w.WriteHeader(map[string]int{"429": 429, "503": 503, "500": 500, "404": 404, "408": 408}[r.URL.RawQuery])
		case "/hang":
			if r.URL.RawQuery == "" {
				begun <- struct{}{}
			}
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })

	t.Run("ReturnsTheAnswer", func(t *testing.T) {
		t.Parallel()
		p := launch(t, "loopback", "")
		for query, text := range answers {
			o := call(t, p, map[string]any{"url": server.URL + "/text?" + query, "method": "POST", "body": "x"})
			require.False(t, o.Base64, query)
			require.Equal(t, text, o.Body)
		}

		o := call(t, p, map[string]any{"url": server.URL + "/echo", "method": "POST", "headers": map[string]string{"x-token": "tiger"},
			"body": map[string]int{"a": 1}})
		require.Equal(t, 200, o.Status)
		require.Equal(t, `POST {"a":1}|tiger|job_7|application/json`, o.Body)
		require.NotContains(t, o.Headers, "Set-Cookie")
		require.LessOrEqual(t, len(o.Headers["X-Long"]), 1030)

		o = call(t, p, map[string]any{"url": server.URL + "/echo", "method": "PUT", "headers": map[string]string{"Idempotency-Key": "mine"},
			"body": "a text"})
		require.Equal(t, `PUT a text||mine|`, o.Body)

		o = call(t, p, map[string]any{"url": server.URL + "/long"})
		require.True(t, o.Truncated)
		require.Equal(t, strings.Repeat("é", 32<<10), o.Body)

		o = call(t, p, map[string]any{"url": server.URL + "/binary"})
		require.Equal(t, output{Status: 200, Headers: o.Headers, Body: "AP8=", Base64: true}, o)

		o = call(t, p, map[string]any{"url": server.URL + "/redirect", "expectedStatus": []any{204, "300-399"}})
		require.Equal(t, 302, o.Status)
		require.Equal(t, "/echo", o.Headers["Location"])
		require.NotContains(t, p.Tail(), "tiger")

		o = call(t, p, map[string]any{"url": server.URL + "/heads"})
		require.True(t, o.Base64 && o.Truncated, "as text it would take 384 KiB")
		require.NotEmpty(t, o.Headers)

		for i, method := range []string{"POST", "PATCH"} {
			o = call(t, p, map[string]any{"url": server.URL + "/breaks?count", "method": method})
			require.Equal(t, "ordered ", o.Body, "half a character is left out")
			require.True(t, o.Truncated)
			require.EqualValues(t, i+1, calls.Load())
		}
		start(t, p, map[string]any{"url": server.URL + "/breaks"})
		require.IsType(t, &runtime.Failure{}, next(t, p), "a GET can be repeated")
	})

	for name, c := range map[string]struct {
		params map[string]any
		class  runtime.FailureClass
		after  int
		says   string
	}{
		"a limit of calls": {map[string]any{"url": server.URL + "/later?429"}, runtime.EndpointFailed, 77, "429"},
		"an outage":        {map[string]any{"url": server.URL + "/later?503"}, runtime.EndpointFailed, 77, "503"},
		"an error of a server": {map[string]any{"url": server.URL + "/later?500"}, runtime.EndpointFailed, 0,
			"127.0.0.1 returned status 500; expected 200–299."},
		"an error of others": {map[string]any{"url": server.URL + "/later?500", "expectedStatus": []any{201, "2xx"}}, runtime.EndpointFailed, 0,
			"expected 201, 200–299."},
		"a slow request":  {map[string]any{"url": server.URL + "/later?408"}, runtime.EndpointFailed, 0, "408"},
		"a broken answer": {map[string]any{"url": server.URL + "/breaks"}, runtime.EndpointFailed, 0, "127.0.0.1"},
		"no certificate": {map[string]any{"url": strings.Replace(server.URL, "http:", "https:", 1) + "/echo"}, runtime.EndpointFailed, 0,
			"127.0.0.1"},
		"nothing there":        {map[string]any{"url": server.URL + "/later?404"}, runtime.InvalidInput, 0, "404"},
		"an unexpected 200":    {map[string]any{"url": server.URL + "/echo", "expectedStatus": []any{201}}, runtime.InvalidInput, 0, "200"},
		"a redirect":           {map[string]any{"url": server.URL + "/redirect"}, runtime.InvalidInput, 0, "not followed"},
		"a refused connection": {map[string]any{"url": "http://127.0.0.1:1024/secret"}, runtime.EndpointFailed, 0, "127.0.0.1"},
		"a private address":    {map[string]any{"url": "https://10.0.0.1/"}, runtime.InvalidInput, 0, "not public"},
		"a name of a network":  {map[string]any{"url": "https://metadata.internal/"}, runtime.InvalidInput, 0, "not public"},
		"a body of a GET":      {map[string]any{"url": server.URL, "body": "x"}, runtime.InvalidInput, 0, "params.body"},
		"a header of Reelay's": {map[string]any{"url": server.URL, "headers": map[string]string{"host": "tiger"}}, runtime.InvalidInput, 0,
			"Host"},
		"a header with a line": {map[string]any{"url": server.URL, "headers": map[string]string{"a": "tiger\r\nb: c"}}, runtime.InvalidInput, 0,
			"params.headers"},
		"a method": {map[string]any{"url": server.URL, "method": "TRACE"}, runtime.InvalidInput, 0, "params.method"},
		"no range": {map[string]any{"url": server.URL, "expectedStatus": []any{"300-200"}}, runtime.InvalidInput, 0,
			"expectedStatus"},
		"a time":        {map[string]any{"url": server.URL, "timeoutSeconds": 301}, runtime.InvalidInput, 0, "timeoutSeconds"},
		"a slow server": {map[string]any{"url": server.URL + "/hang?tiger", "timeoutSeconds": 0.05}, runtime.EndpointFailed, 0, "failed"},
	} {
		t.Run("FailsAfter "+name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, "loopback", "")

			start(t, p, c.params)
			failure, ok := next(t, p).(*runtime.Failure)

			require.True(t, ok)
			require.Equal(t, c.class, failure.Class, failure.Message)
			require.Equal(t, c.after, failure.RetryAfterSeconds)
			require.Contains(t, failure.Message, c.says)
			require.NotContains(t, failure.Message+p.Tail(), "tiger")
			require.NotContains(t, failure.Message+p.Tail(), "secret")
		})
	}

	t.Run("IsNotMadeToThisMachineOrReelay", func(t *testing.T) {
		t.Parallel()

		start1, start2 := launch(t, "public", ""), launch(t, "loopback", strings.TrimPrefix(server.URL, "http://"))
		for _, p := range []*runtime.Process{start1, start2} {
			start(t, p, map[string]any{"url": strings.Replace(server.URL, "http:", "https:", 1) + "/echo"})
			failure, ok := next(t, p).(*runtime.Failure)
			require.True(t, ok)
			require.Equal(t, runtime.InvalidInput, failure.Class)
			require.Contains(t, failure.Message, "params.url is not allowed")
		}
	})

	t.Run("IsNotMadeToAddressesThatCameWithTheJob", func(t *testing.T) {
		t.Parallel()
		p := launch(t, "loopback", "")
		settings, err := json.Marshal(map[string]any{"except": []string{strings.TrimPrefix(server.URL, "http://")}})
		require.NoError(t, err)
		params, err := json.Marshal(map[string]string{"url": strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/echo"})
		require.NoError(t, err)

		require.NoError(t, p.Start(runtime.Start{Job: "job_7", Model: "http.call", Type: "http.call", Params: params, Settings: settings,
			Workdir: t.TempDir()}))

		failure, ok := next(t, p).(*runtime.Failure)
		require.True(t, ok)
		require.Equal(t, runtime.InvalidInput, failure.Class)
		require.Contains(t, failure.Message, "Reelay itself")
	})

	t.Run("EndsWhenItIsCancelled", func(t *testing.T) {
		t.Parallel()
		p := launch(t, "loopback", "")
		start(t, p, map[string]any{"url": server.URL + "/hang"})
		<-begun

		require.NoError(t, p.Checkpoint())
		require.Equal(t, &runtime.Checkpoint{}, next(t, p))
		require.NoError(t, p.Cancel(false))

		require.IsType(t, &runtime.Cancelled{}, next(t, p))
	})
}
