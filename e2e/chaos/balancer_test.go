package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestBalancer(t *testing.T) {
	t.Parallel()

	// api starts a server that passes requests other than those for health to answer.
	api := func(t *testing.T, ready int, answer http.HandlerFunc) string {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				w.WriteHeader(ready)
				return
			}
			answer(w, r)
		}))
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	start := func(t *testing.T, apis ...string) *balancer {
		t.Helper()
		b, err := startBalancer(t.TempDir(), apis)
		require.NoError(t, err)
		t.Cleanup(b.close)
		testrun.Eventually(t, "an api is ready", func() bool { return b.pick() != nil })
		return b
	}
	post := func(t *testing.T, b *balancer) (int, string) {
		t.Helper()
		answer, err := http.Post("http://"+b.address, "text/plain", strings.NewReader("hello"))
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

	t.Run("PassesOverApisThatAreNotReady", func(t *testing.T) {
		t.Parallel()
		b := start(t, api(t, http.StatusServiceUnavailable, func(http.ResponseWriter, *http.Request) { t.Error("asked") }),
			api(t, http.StatusOK, echo))

		for range 5 {
			status, text := post(t, b)
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, "hello", text)
		}
	})

	t.Run("SendsWhatWasRefusedToAnother", func(t *testing.T) {
		t.Parallel()
		gone, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, gone.Close())
		b := start(t, gone.Addr().String(), api(t, http.StatusOK, echo))
		b.apis[0].ready.Store(true) // as it was a moment ago

		status, text := post(t, b)

		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "hello", text)
		require.Equal(t, b.apis[1], b.pick(), "the other is left alone for a while")
	})

	t.Run("DoesNotRepeatWhatMayHaveBeenExecuted", func(t *testing.T) {
		t.Parallel()
		var calls atomic.Int64
		broken := func(http.ResponseWriter, *http.Request) {
			calls.Add(1)
			panic(http.ErrAbortHandler)
		}
		b := start(t, api(t, http.StatusOK, broken), api(t, http.StatusOK, broken))

		status, _ := post(t, b)

		require.Equal(t, http.StatusBadGateway, status)
		require.EqualValues(t, 1, calls.Load())
	})

	t.Run("ForwardsStreamsThatBeginAtOnce", func(t *testing.T) {
		t.Parallel()
		b := start(t, api(t, http.StatusOK, func(w http.ResponseWriter, r *http.Request) {
			for i := range 3 {
				fmt.Fprintf(w, "%d\n", i)
				_ = http.NewResponseController(w).Flush()
			}
		}))

		for range 200 {
			_, text := post(t, b)
			require.Equal(t, "0\n1\n2\n", text)
		}
	})
}

func TestInbound(t *testing.T) {
	t.Parallel()

	from := io.MultiReader(bytes.NewReader([]byte("x")), &closedOnce{})
	b := &inbound{from: from}
	text, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "x", string(text))

	_, err = b.Read(make([]byte, 1))

	require.ErrorIs(t, err, io.EOF, "not the error of a body that was closed meanwhile")
}

// closedOnce ends at its first read, and fails at each later one.
type closedOnce struct{ read bool }

func (c *closedOnce) Read([]byte) (int, error) {
	if c.read {
		return 0, http.ErrBodyReadAfterClose
	}
	c.read = true
	return 0, io.EOF
}
