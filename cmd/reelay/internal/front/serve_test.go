package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// serving serves handler until the returned function ends it. The channel receives the result
// of serve.
func serving(t *testing.T, handler http.HandlerFunc) (address string, end func(), ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, TLSFiles{}, handler) }()
	t.Cleanup(cancel)
	return "http://" + listener.Addr().String(), cancel, done
}

// raw sends these bytes and returns the response until the connection ends.
func raw(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, _ = io.WriteString(conn, request) // the server may close first
	answer, err := io.ReadAll(conn)
	if !errors.Is(err, syscall.ECONNRESET) {
		require.NoError(t, err)
	}
	return string(answer)
}

func TestServe_RefusesMalformedRequests(t *testing.T) {
	t.Parallel()
	address, _, _ := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s came through", r.Method, r.URL) })
	const head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"

	for name, c := range map[string]struct{ request, status string }{
		"a header of 33 kB":   {head + "X: " + strings.Repeat("x", 33<<10) + "\r\n\r\n", "431"},
		"a header of 64 kB":   {head + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431"},
		"two hosts":           {head + "Host: b\r\n\r\n", "400"},
		"no host":             {"GET / HTTP/1.1\r\n\r\n", "400"},
		"two lengths":         {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", "400"},
		"an invalid length":   {head + "Content-Length: -1\r\n\r\n", "400"},
		"an unknown encoding": {head + "Transfer-Encoding: xchunked\r\n\r\n", "501"},
		"two encodings":       {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501"},
		"a folded line":       {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "400"},
		"a NUL in a header":   {head + "X: a\x00b\r\n\r\n", "400"},
		"no HTTP":             {"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Regexp(t, "^HTTP/1.[01] "+c.status+" ", raw(t, address, c.request))
		})
	}

	t.Run("a head that never ends", func(t *testing.T) {
		t.Parallel()

		require.Empty(t, raw(t, address, "GET / HTTP/1.1\r\nHost: a\r\nX: "), "the server hangs up by itself")
	})
}

func TestServe_AcceptsHeadersOf31KB(t *testing.T) {
	t.Parallel()
	address, _, _ := serving(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header.Get("X"))) })

	answer := raw(t, address, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: "+strings.Repeat("x", 31<<10)+"\r\n\r\n")

	require.Contains(t, answer, "31744")
}

// If two servers may read the length of a request differently, it is the last on its
// connection: one of them would take the bytes after it for its body.
func TestServe_IgnoresBytesAfterAChunkedRequest(t *testing.T) {
	t.Parallel()

	for name, length := range map[string]string{"that has a length too": "Content-Length: 6\r\n", "that has none": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			paths := make(chan string, 3)
			address, _, _ := serving(t, func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				require.NoError(t, err)
				paths <- r.URL.Path
			})

			answers := raw(t, address, "POST /first HTTP/1.1\r\nHost: a\r\n"+length+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
				"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\nGET /too HTTP/1.1\r\nHost: a\r\n\r\n")

			require.Equal(t, 1, strings.Count(answers, "HTTP/1.1 "), answers)
			require.Contains(t, answers, "\r\nConnection: close\r\n")
			require.Equal(t, "/first", <-paths)
			require.Empty(t, paths)
		})
	}
}

// A client that resets each request at once (rapid reset) gets no more concurrent requests
// than one that waits, and is disconnected.
func TestServe_LimitsHTTP2Resets(t *testing.T) {
	t.Parallel()

	const requests, most = 5_000, 250
	var running atomic.Int64
	release := make(chan struct{})
	files, err := SelfSigned(t.TempDir(), "")
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, listener, files, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				running.Add(1)
				<-release // like a handler that waits for PostgreSQL and does not notice the reset
			}
		}))
	}()
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}

	conn, err := tls.Dial("tcp", listener.Addr().String(), config)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	last := make(chan http2.ErrCode, 1)
	framer := http2.NewFramer(conn, conn)
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	require.NoError(t, framer.WriteSettings())
	go func() {
		reader := http2.NewFramer(nil, conn)
		for {
			frame, err := reader.ReadFrame()
			if err != nil {
				last <- http2.ErrCodeNo
				return
			}
			if away, ok := frame.(*http2.GoAwayFrame); ok {
				last <- away.ErrCode
				return
			}
		}
	}()
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for i := range requests {
		head.Reset()
		for name, value := range map[string]string{":method": "GET", ":scheme": "https", ":authority": "a", ":path": "/slow"} {
			require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: name, Value: value}))
		}
		id := uint32(2*i + 1)
		err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true})
		if err == nil {
			err = framer.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if err != nil {
			break // the server closed the connection
		}
	}

	require.Equal(t, http2.ErrCodeEnhanceYourCalm, <-last)
	require.LessOrEqual(t, running.Load(), int64(most))
	other := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}}
	answer, err := other.Get("https://" + listener.Addr().String() + "/")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 2, answer.ProtoMajor)
	close(release)
	other.CloseIdleConnections()
	end()
	require.NoError(t, <-ended)
}

func TestServe(t *testing.T) {
	t.Parallel()

	t.Run("FinishesItsRequests", func(t *testing.T) {
		t.Parallel()

		arrived, release := make(chan struct{}), make(chan struct{})
		address, end, ended := serving(t, func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-release
			require.NoError(t, r.Context().Err())
			io.WriteString(w, "done")
		})
		answers := make(chan string, 1)
		go func() {
			response, err := http.Get(address)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			answers <- string(body)
		}()
		<-arrived

		end()
		require.Empty(t, ended, "it waits for the request")
		close(release)

		require.Equal(t, "done", <-answers)
		require.NoError(t, <-ended)
	})

	t.Run("SendsLateRequestsElsewhere", func(t *testing.T) {
		t.Parallel()

		address, end, ended := serving(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served") })
		client := &http.Client{Transport: &http.Transport{}}
		isLast := func() bool {
			response, err := client.Get(address)
			require.NoError(t, err)
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			return response.Close
		}
		require.False(t, isLast())

		end()

		require.True(t, isLast(), "the answer on the open connection closes it")
		require.NoError(t, <-ended)
	})

	t.Run("EndsStreamsAtOnce", func(t *testing.T) {
		t.Parallel()

		arrived := make(chan struct{})
		causes := make(chan error, 1)
		address, end, ended := serving(t, func(_ http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-r.Context().Done()
			causes <- context.Cause(r.Context())
		})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		request.Header.Set("Accept", "text/event-stream")
		go http.DefaultClient.Do(request)
		<-arrived

		end()

		require.ErrorIs(t, <-causes, graph.ErrRestart)
		require.NoError(t, <-ended)
	})
}

func TestIsStream(t *testing.T) {
	t.Parallel()

	for path, held := range map[string]bool{
		"/api/video-generations/x?wait=60": true, "/api/video-generations/x": false, "/graphql?wait=60": false,
		"/api/video-generations/wait": false,
	} {
		require.Equal(t, held, IsStream(httptest.NewRequest(http.MethodGet, path, nil)), path)
	}
	events := httptest.NewRequest(http.MethodGet, "/graphql", nil)
	events.Header.Set("Accept", "application/json, text/event-stream")
	require.False(t, IsStream(events), "a query by GET has one answer")
	events.Method = http.MethodPost
	require.True(t, IsStream(events))
}

func TestListen(t *testing.T) {
	t.Parallel()

	t.Run("UsesAnInheritedSocket", func(t *testing.T) {
		t.Parallel()

		first, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		socket, err := Inheritable(first)
		require.NoError(t, err)
		defer socket.Close()
		second, err := net.FileListener(socket)
		require.NoError(t, err)
		defer second.Close()

		require.NoError(t, first.Close())
		conn, err := net.Dial("tcp", first.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		taken, err := second.Accept()

		require.NoError(t, err)
		require.NoError(t, taken.Close())
	})

	t.Run("LeavesAnInheritedSocketUnchanged", func(t *testing.T) {
		t.Parallel()

		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		socket, err := Inheritable(listener)
		require.NoError(t, err)
		defer socket.Close()
		socket.Fd() // starting a child process does the same

		accepted := make(chan error, 1)
		go func() {
			_, err := listener.Accept()
			accepted <- err
		}()
		require.NoError(t, listener.Close())

		select {
		case err := <-accepted:
			require.ErrorIs(t, err, net.ErrClosed)
		case <-time.After(testrun.WaitLimit):
			require.Fail(t, "a blocking socket holds its acceptor for good")
		}
	})

	t.Run("ReportsThatTheAddressIsInUse", func(t *testing.T) {
		t.Parallel()

		first, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer first.Close()

		_, err = Listen(first.Addr().String())

		require.ErrorIs(t, err, syscall.EADDRINUSE)
		require.ErrorContains(t, err, "cannot listen on "+first.Addr().String())
		require.ErrorContains(t, err, "choose another address with --listen")
	})

	t.Run("ReportsAMissingInheritedSocket", func(t *testing.T) {
		t.Parallel()

		_, err := Listen("fd:60000")

		require.ErrorContains(t, err, "started without a listening socket there")
	})
}
