package remote

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/stretchr/testify/require"
)

func TestFetch(t *testing.T) {
	t.Parallel()

	mux := http.NewServeMux()
	mux.HandleFunc("/image", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("an image")) })
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/image", http.StatusFound) })
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		for range picture.MaxBytes>>20 + 2 {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/announced", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(picture.MaxBytes+1))
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("\x1f\x8b"))
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("half"))
	})
	mux.HandleFunc("/drip", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("a"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	images := New(outbound.Policy{AllowLoopback: true})

	t.Run("ReadsAnImage", func(t *testing.T) {
		t.Parallel()

		data, err := images.Fetch(t.Context(), server.URL+"/image")

		require.NoError(t, err)
		require.Equal(t, "an image", string(data))
	})

	t.Run("ReportsTheErrorAndWhetherItIsTemporary", func(t *testing.T) {
		t.Parallel()

		quick := newImages(outbound.Policy{AllowLoopback: true}, 200*time.Millisecond)
		for path, want := range map[string]inputs.RemoteError{
			"/redirect":   {Reason: "it answered 302, a redirect, which is not followed: give the URL of the image itself"},
			"/huge":       {Reason: "the answer is too large"},
			"/announced":  {Reason: "the answer is too large"},
			"/gzip":       {Reason: "it was sent compressed, which is not supported"},
			"/cut":        {Reason: "the connection failed", Passing: true},
			"/drip":       {Reason: "no complete answer arrived in time", Passing: true},
			"/status/404": {Reason: "it answered 404"},
			"/status/403": {Reason: "it answered 403"},
			"/status/204": {Reason: "it answered 204"},
			"/status/429": {Reason: "it answered 429", Passing: true},
			"/status/503": {Reason: "it answered 503", Passing: true},
		} {
			from := images
			if path == "/drip" {
				from = quick
			}

			_, err := from.Fetch(t.Context(), server.URL+path)

			var away *inputs.RemoteError
			require.ErrorAs(t, err, &away, path)
			require.Equal(t, want, *away, path)
		}
	})

	t.Run("ReachesOnlyPublicAddresses", func(t *testing.T) {
		t.Parallel()

		guarded := New(outbound.Policy{})
		for _, url := range []string{server.URL + "/image", strings.Replace(server.URL, "http:", "https:", 1) + "/image", "https://10.0.0.1/",
			"file:///etc/passwd"} {
			require.Error(t, guarded.Check(url), url)

			_, err := guarded.Fetch(t.Context(), url)

			var away *inputs.RemoteError
			require.ErrorAs(t, err, &away, url)
			require.False(t, away.Passing, url)
			require.NotContains(t, err.Error(), "127.0.0.1")
		}
	})

	t.Run("EndsWithItsCaller", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err := images.Fetch(ctx, server.URL+"/drip")

		require.ErrorIs(t, err, context.Canceled)
	})
}
