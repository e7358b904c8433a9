package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/graph"
	"github.com/stretchr/testify/require"
)

// serving serves handler until the returned function ends it; what serve then
// returns comes on the channel.
func serving(t *testing.T, handler http.HandlerFunc) (address string, end func(), ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener, handler) }()
	t.Cleanup(cancel)
	return "http://" + listener.Addr().String(), cancel, done
}

// raw sends these bytes and returns what is answered until the connection ends.
func raw(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, _ = io.WriteString(conn, request) // it may be cut off
	answer, err := io.ReadAll(conn)
	if !errors.Is(err, syscall.ECONNRESET) {
		require.NoError(t, err)
	}
	return string(answer)
}

func TestServe_RefusesRequestsThatAreNone(t *testing.T) {
	t.Parallel()
	address, _, _ := serving(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s came through", r.Method, r.URL) })
	const head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"

	for name, c := range map[string]struct{ request, status string }{
		"a header of 64 kB":     {head + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431"},
		"two hosts":             {head + "Host: b\r\n\r\n", "400"},
		"no host":               {"GET / HTTP/1.1\r\n\r\n", "400"},
		"two lengths":           {head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", "400"},
		"a length that is none": {head + "Content-Length: -1\r\n\r\n", "400"},
		"an unknown encoding":   {head + "Transfer-Encoding: xchunked\r\n\r\n", "501"},
		"two encodings":         {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501"},
		"a folded line":         {"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "400"},
		"a NUL in a header":     {head + "X: a\x00b\r\n\r\n", "400"},
		"no HTTP":               {"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n", "400"},
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

func TestServe(t *testing.T) {
	t.Parallel()

	t.Run("FinishesTheRequestsThatItHas", func(t *testing.T) {
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

	t.Run("SendsWhoStillComesElsewhere", func(t *testing.T) {
		t.Parallel()

		address, end, ended := serving(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "served") })
		client := &http.Client{Transport: &http.Transport{}}
		get := func(path string) (int, bool) {
			response, err := client.Get(address + path)
			require.NoError(t, err)
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			return response.StatusCode, response.Close
		}
		status, last := get("/readyz")
		require.Equal(t, http.StatusOK, status)
		require.False(t, last)

		end()
		status, last = get("/readyz") // on the connection that is open

		require.Equal(t, http.StatusServiceUnavailable, status)
		require.True(t, last, "the answer closes the connection")
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
		"/api/video-generations/x?wait=60": true, "/api/video-generations/x": false, "/graphql?wait=60": false, "/api/video-generations/wait": false,
	} {
		require.Equal(t, held, isStream(httptest.NewRequest(http.MethodGet, path, nil)), path)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()

	t.Run("TakesASocketThatItIsGiven", func(t *testing.T) {
		t.Parallel()

		first, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		socket, err := handDown(first)
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

	t.Run("LeavesAHandedDownSocketAsItIs", func(t *testing.T) {
		t.Parallel()

		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		socket, err := handDown(listener)
		require.NoError(t, err)
		defer socket.Close()
		socket.Fd() // as each start of a child asks for it

		accepted := make(chan error, 1)
		go func() {
			_, err := listener.Accept()
			accepted <- err
		}()
		require.NoError(t, listener.Close())

		select {
		case err := <-accepted:
			require.ErrorIs(t, err, net.ErrClosed)
		case <-time.After(10 * time.Second):
			require.Fail(t, "a blocking socket holds its acceptor for good")
		}
	})

	t.Run("SaysThatItWasGivenNone", func(t *testing.T) {
		t.Parallel()

		_, err := listen("fd:60000")

		require.ErrorContains(t, err, "started without a listening socket there")
	})
}
