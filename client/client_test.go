package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"github.com/reelay/reelay/client"
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
		require.Equal(t, map[string]any{"input": map[string]any{"model": "testcard", "prompt": "a lighthouse", "idempotencyKey": "k1"}}, sent["variables"])
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
			client.Error{Code: client.CodeUnavailable, Message: "HOST answered 503 Service Unavailable: not ready", RetryAfter: 7 * time.Second}, true},
		"ProxyPage": {200, "", "<html>welcome</html>",
			client.Error{Code: client.CodeUnavailable, Message: "HOST answered 200 OK: <html>welcome</html>"}, true},
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

// artifact describes text as the API would.
func artifact(t *testing.T, url, text string) *client.Artifact {
	t.Helper()
	sum, size, err := client.Checksum(strings.NewReader(text))
	require.NoError(t, err)
	return &client.Artifact{Id: "art_1", Url: url, SizeBytes: size, Checksum: sum}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	film := strings.Repeat("frame ", 50_000)

	t.Run("ResumesAfterACutWithoutReadingTwice", func(t *testing.T) {
		t.Parallel()
		var ranges []string
		c, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			ranges = append(ranges, r.Header.Get("Range"))
			if len(ranges) == 1 {
				w.Header().Set("Content-Length", "300000")
				io.WriteString(w, film[:100_000])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(film))
		})
		path := filepath.Join(t.TempDir(), "film.mp4")

		err := c.Download(t.Context(), artifact(t, server.URL+"/o", film), path, nil)

		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, film, string(got))
		require.Equal(t, []string{"", "bytes=100000-"}, ranges)
	})

	t.Run("StartsAgainIfTheServerKnowsNoRanges", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, film) })
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".art_1.part"), []byte(film[:10]), 0o600))

		err := c.Download(t.Context(), artifact(t, "/o", film), filepath.Join(dir, "film.mp4"), nil)

		require.NoError(t, err)
	})

	t.Run("RefusesOtherBytes", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "forged") })
		dir := t.TempDir()

		err := c.Download(t.Context(), artifact(t, "/o", "genuin"), filepath.Join(dir, "film.mp4"), nil)

		require.Equal(t, client.CodeChecksumMismatch, client.ErrorCode(err))
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})

	for name, stored := range map[string]string{"TooShort": film[:1000], "TooLong": film + film, "TooShortToGoOn": film[:5]} {
		t.Run("RefusesAnObjectThatIs"+name, func(t *testing.T) {
			t.Parallel()
			c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(stored))
			})
			dir := t.TempDir()
			if name == "TooShortToGoOn" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, ".art_1.part"), []byte(film[:10]), 0o600))
			}

			err := c.Download(t.Context(), artifact(t, "/o", film), filepath.Join(dir, "film.mp4"), nil)

			require.Equal(t, client.CodeChecksumMismatch, client.ErrorCode(err))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}

	t.Run("DoesNotRetryAnOldLink", func(t *testing.T) {
		t.Parallel()
		var calls atomic.Int32
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.WriteHeader(http.StatusForbidden)
		})

		err := c.Download(t.Context(), artifact(t, "/o", film), filepath.Join(t.TempDir(), "film.mp4"), nil)

		require.Equal(t, client.CodeForbidden, client.ErrorCode(err))
		require.EqualValues(t, 1, calls.Load())
	})
}

func TestUpload(t *testing.T) {
	t.Parallel()

	t.Run("SendsExactlyWhatTheTargetAsksFor", func(t *testing.T) {
		t.Parallel()
		var got, header, key string
		var length int64
		c, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got, length, header, key = r.Method+" "+string(body), r.ContentLength, r.Header.Get("X-Goog-If-Generation-Match"), r.Header.Get("Authorization")
		})
		target := &client.UploadTarget{Url: "/objects/x?sig=1", Method: "PUT", Headers: json.RawMessage(`{"x-goog-if-generation-match":"0"}`)}

		err := c.Upload(t.Context(), target, strings.NewReader("bytes and more"), 5)

		require.NoError(t, err)
		require.Equal(t, "PUT bytes", got)
		require.EqualValues(t, 5, length)
		require.Equal(t, "0", header)
		require.Empty(t, key, "a signed link must not see the key")
	})

	t.Run("SaysWhenTheKeyIsTaken", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPreconditionFailed) })

		err := c.Upload(t.Context(), &client.UploadTarget{Url: "/o", Method: "PUT", Headers: json.RawMessage(`{}`)}, strings.NewReader("x"), 1)

		require.Equal(t, client.CodeConflict, client.ErrorCode(err))
	})
}

// frame is a message of graphql-transport-ws.
type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// accept takes one subscription and returns its socket.
func accept(w http.ResponseWriter, r *http.Request) *websocket.Conn {
	conn, _ := acceptFrame(w, r)
	return conn
}

// acceptFrame is accept, and returns what was asked for too.
func acceptFrame(w http.ResponseWriter, r *http.Request) (*websocket.Conn, frame) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return nil, frame{}
	}
	var hello, subscribe frame
	_ = wsjson.Read(r.Context(), conn, &hello)
	if string(hello.Payload) != `{"authorization":"Bearer rl_test"}` {
		conn.Close(4401, "Unauthorized")
		return nil, frame{}
	}
	_ = wsjson.Write(r.Context(), conn, frame{Type: "connection_ack"})
	_ = wsjson.Read(r.Context(), conn, &subscribe)
	return conn, subscribe
}

func sendStatus(r *http.Request, conn *websocket.Conn, status string) {
	payload := json.RawMessage(`{"data":{"jobProgress":{"id":"job_1","status":"` + status + `"}}}`)
	_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "next", Payload: payload})
}

func TestWatchJob(t *testing.T) {
	t.Parallel()

	t.Run("ConnectsAgainAndEndsWithTheJob", func(t *testing.T) {
		t.Parallel()
		var connections atomic.Int32
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn := accept(w, r)
			defer conn.CloseNow()
			if connections.Add(1) == 1 {
				_ = wsjson.Write(r.Context(), conn, frame{Type: "ping"})
				var pong frame
				_ = wsjson.Read(r.Context(), conn, &pong)
				sendStatus(r, conn, pong.Type)
				return // a connection that breaks
			}
			sendStatus(r, conn, "COMPLETED")
			<-conn.CloseRead(r.Context()).Done()
		})

		var seen []client.JobStatus
		breaks := 0
		for job, err := range c.WatchJob(t.Context(), "job_1", 50*time.Millisecond) {
			if err != nil {
				require.Equal(t, client.CodeUnavailable, client.ErrorCode(err))
				breaks++
				continue
			}
			seen = append(seen, job.Status)
		}

		require.Equal(t, []client.JobStatus{"pong", client.JobStatusCompleted}, seen)
		require.Equal(t, 1, breaks)
	})

	t.Run("EndsWithAnErrorThatWillNotPass", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if conn := accept(w, r); conn != nil {
				payload := json.RawMessage(`[{"message":"there is no job job_1","extensions":{"code":"NOT_FOUND"}}]`)
				_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "error", Payload: payload})
				<-conn.CloseRead(r.Context()).Done()
			}
		})

		for key, want := range map[string]client.Code{"rl_test": client.CodeNotFound, "rl_other": client.CodeUnauthenticated} {
			var codes []client.Code
			for _, err := range c.WithKey(key).WatchJob(t.Context(), "job_1", time.Second) {
				codes = append(codes, client.ErrorCode(err))
			}
			require.Equal(t, []client.Code{want}, codes)
		}
	})

	t.Run("StopsWhenTheCallerDoes", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn := accept(w, r)
			defer conn.CloseNow()
			sendStatus(r, conn, "RUNNING")
			<-conn.CloseRead(r.Context()).Done()
		})

		for job, err := range c.WatchJob(t.Context(), "job_1", time.Second) {
			require.NoError(t, err)
			require.Equal(t, client.JobStatusRunning, job.Status)
			break
		}
	})
}

func TestWorkerDirectives(t *testing.T) {
	t.Parallel()

	t.Run("ConnectsAgainAndEndsWithTheWorker", func(t *testing.T) {
		t.Parallel()
		var connections atomic.Int32
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			conn := accept(w, r)
			defer conn.CloseNow()
			action := "TERMINATE"
			if connections.Add(1) == 1 {
				action = "CANCEL"
			}
			payload := json.RawMessage(`{"data":{"workerDirectives":{"action":"` + action + `","jobId":"job_1"}}}`)
			_ = wsjson.Write(r.Context(), conn, frame{ID: "1", Type: "next", Payload: payload})
			if action == "TERMINATE" {
				<-conn.CloseRead(r.Context()).Done()
			}
		})

		var heard []client.DirectiveAction
		for directive, err := range c.WorkerDirectives(t.Context(), "wrk_1") {
			if err == nil {
				require.Equal(t, "job_1", *directive.JobId)
				heard = append(heard, directive.Action)
			}
		}

		require.Equal(t, []client.DirectiveAction{client.DirectiveActionCancel, client.DirectiveActionTerminate}, heard)
	})
}
