package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

// serve starts an HTTP server and returns a client of it.
func serve(t *testing.T, handler http.HandlerFunc, options ...client.Option) (*client.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "rl_test", options...)
	require.NoError(t, err)
	return c, server
}

func TestNew(t *testing.T) {
	t.Parallel()

	for _, endpoint := range []string{"", "127.0.0.1:8080", "ftp://host", "http://", "::"} {
		_, err := client.New(endpoint, "key")

		require.Equal(t, client.CodeInvalidInput, client.ErrorCode(err), "endpoint %q", endpoint)
	}
	for endpoint, want := range map[string]string{
		"http://host:1":          "http://host:1/graphql",
		"https://host/":          "https://host/graphql",
		"https://host/a/graphql": "https://host/a/graphql",
	} {
		c, err := client.New(endpoint, "key")

		require.NoError(t, err)
		require.Equal(t, want, c.Endpoint())
	}
}

func TestCall(t *testing.T) {
	t.Parallel()

	t.Run("SendsTheKeyAndOnlyWhatIsSet", func(t *testing.T) {
		t.Parallel()
		var sent map[string]any
		var key string
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			key = r.Header.Get("Authorization")
			_ = json.NewDecoder(r.Body).Decode(&sent)
			io.WriteString(w, `{"data":{"submitJob":{"deduplicated":true,"job":{"id":"job_1","result":{"sizeBytes":"9007199254740993"}}}}}`)
		})

		got, err := c.SubmitJob(t.Context(), client.SubmitJobInput{Model: "testcard", Prompt: new("a lighthouse"), IdempotencyKey: new("k1")})

		require.NoError(t, err)
		require.Equal(t, "Bearer rl_test", key)
		require.Equal(t, map[string]any{"input": map[string]any{"model": "testcard", "prompt": "a lighthouse", "idempotencyKey": "k1"}},
			sent["variables"])
		require.True(t, got.Deduplicated)
		require.Equal(t, int64(9007199254740993), got.Job.Result.SizeBytes)
	})

	t.Run("GuessesAndDeletes", func(t *testing.T) {
		t.Parallel()
		var sent []string
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			var asked struct {
				OperationName string
				Variables     json.RawMessage
			}
			_ = json.NewDecoder(r.Body).Decode(&asked)
			sent = append(sent, asked.OperationName+" "+string(asked.Variables))
			io.WriteString(w, `{"data":{"estimate":{"renderSeconds":4.5,"position":3},"deleteJob":{"id":"job_1","deletedAt":"2026-01-02T03:04:05Z"}}}`)
		})

		guess, err := c.Estimate(t.Context(), client.SubmitJobInput{Model: "testcard"})
		require.NoError(t, err)
		deleted, err := c.DeleteJob(t.Context(), "job_1")
		require.NoError(t, err)

		require.Equal(t, client.Estimate{RenderSeconds: new(4.5), Position: 3}, *guess)
		require.Equal(t, 2026, deleted.DeletedAt.Year())
		require.Equal(t, []string{`estimate {"input":{"model":"testcard"}}`, `deleteJob {"id":"job_1"}`}, sent)
	})

	t.Run("NullIsNotFound", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"data":{"job":null}}`) })

		_, err := c.Job(t.Context(), "job_1")

		require.Equal(t, client.CodeNotFound, client.ErrorCode(err))
	})
}

func TestCallFails(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		status    int
		header    string
		body      string
		want      client.Error
		retryable bool
	}{
		"GraphQLError": {200, "", `{"data":null,"errors":[{"message":"too long","extensions":{"code":"INVALID_INPUT","field":"prompt"}}]}`,
			client.Error{Code: client.CodeInvalidInput, Message: "too long", Field: "prompt"}, false},
		"Overloaded": {200, "", `{"errors":[{"message":"full","extensions":{"code":"OVERLOADED","retryAfterSeconds":1.5}}]}`,
			client.Error{Code: client.CodeOverloaded, Message: "full", RetryAfter: 1500 * time.Millisecond}, true},
		"UnauthenticatedWithBody": {401, "", `{"errors":[{"message":"no such key","extensions":{"code":"UNAUTHENTICATED"}}]}`,
			client.Error{Code: client.CodeUnauthenticated, Message: "no such key"}, false},
		"UnauthenticatedWithText": {401, "", "who are you?",
			client.Error{Code: client.CodeUnauthenticated, Message: "HOST answered 401 Unauthorized: who are you?"}, false},
		"StartingUp": {503, "7", "not ready",
			client.Error{Code: client.CodeUnavailable, Message: "HOST answered 503 Service Unavailable: not ready", RetryAfter: 7 * time.Second},
			true},
		"ProxyPage": {200, "", "<html>welcome</html>",
			client.Error{Code: client.CodeUnavailable, Message: "HOST answered 200 OK with a page for browsers"}, true},
		"PageOfAnotherPath": {404, "", "<html>not here</html>",
			client.Error{Code: client.CodeUnavailable, Message: "HOST answered 404 Not Found: there is no Reelay API at http://HOST/graphql"}, true},
		"ProxyWithoutAPI": {404, "", "no such backend",
			client.Error{Code: client.CodeUnavailable, Message: "HOST answered 404 Not Found: no such backend"}, true},
		"Empty": {200, "", "", client.Error{Code: client.CodeUnavailable, Message: "HOST answered 200 OK"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}, client.WithTries(1))
			test.want.Unsettled = test.want.Code == client.CodeUnavailable
			test.want.Message = strings.ReplaceAll(test.want.Message, "HOST", strings.TrimPrefix(server.URL, "http://"))

			_, err := c.Viewer(t.Context())

			e, ok := errors.AsType[*client.Error](err)
			require.True(t, ok)
			require.Equal(t, test.want, *e)
			require.Equal(t, test.retryable, e.Retryable())
		})
	}

	t.Run("NoServer", func(t *testing.T) {
		t.Parallel()
		c, server := serve(t, nil)
		server.Close()

		_, err := c.Viewer(t.Context())

		require.Equal(t, client.CodeUnavailable, client.ErrorCode(err))
	})

	t.Run("LeavesTheConnectionsOfAnAPIThatIsUnavailable", func(t *testing.T) {
		t.Parallel()
		connections := map[string]bool{}
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			connections[r.RemoteAddr] = true // one call after the other
			io.WriteString(w, `{"data": null, "errors": [{"message": "PostgreSQL is away.", "extensions": {"code": "UNAVAILABLE"}}]}`)
		}, client.WithTries(1))

		for range 3 {
			_, err := c.Viewer(t.Context())
			require.Equal(t, client.CodeUnavailable, client.ErrorCode(err))
		}

		require.Len(t, connections, 3)
	})

	t.Run("CancelledCallSaysSo", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err := c.Viewer(ctx)

		require.ErrorIs(t, err, context.Canceled)
	})
}
