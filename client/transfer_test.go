package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/stretchr/testify/require"
)

// artifact describes text as the API would.
func artifact(t *testing.T, url, text string) *client.Artifact {
	t.Helper()
	sum, size, err := client.Checksum(strings.NewReader(text))
	require.NoError(t, err)
	return &client.Artifact{Id: "art_1", Url: url, SizeBytes: size, Checksum: sum}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	video := strings.Repeat("frame ", 50_000)

	t.Run("ResumesAfterACutWithoutReadingTwice", func(t *testing.T) {
		t.Parallel()
		var ranges []string
		c, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			ranges = append(ranges, r.Header.Get("Range"))
			if len(ranges) == 1 {
				w.Header().Set("Content-Length", "300000")
				io.WriteString(w, video[:100_000])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(video))
		})
		path := filepath.Join(t.TempDir(), "video.mp4")

		err := c.Download(t.Context(), artifact(t, server.URL+"/o", video), path, nil)

		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, video, string(got))
		require.Equal(t, []string{"", "bytes=100000-"}, ranges)
	})

	t.Run("StartsAgainIfTheServerKnowsNoRanges", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, video) })
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".art_1.part"), []byte(video[:10]), 0o600))

		err := c.Download(t.Context(), artifact(t, "/o", video), filepath.Join(dir, "video.mp4"), nil)

		require.NoError(t, err)
	})

	t.Run("RefusesOtherBytes", func(t *testing.T) {
		t.Parallel()
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "forged") })
		dir := t.TempDir()

		err := c.Download(t.Context(), artifact(t, "/o", "genuin"), filepath.Join(dir, "video.mp4"), nil)

		require.Equal(t, client.CodeChecksumMismatch, client.ErrorCode(err))
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})

	for name, stored := range map[string]string{"TooShort": video[:1000], "TooLong": video + video, "TooShortToGoOn": video[:5]} {
		t.Run("RefusesAnObjectThatIs"+name, func(t *testing.T) {
			t.Parallel()
			c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(stored))
			})
			dir := t.TempDir()
			if name == "TooShortToGoOn" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, ".art_1.part"), []byte(video[:10]), 0o600))
			}

			err := c.Download(t.Context(), artifact(t, "/o", video), filepath.Join(dir, "video.mp4"), nil)

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

		err := c.Download(t.Context(), artifact(t, "/o", video), filepath.Join(t.TempDir(), "video.mp4"), nil)

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
			got, length, header, key = r.Method+" "+string(body), r.ContentLength, r.Header.Get("X-Goog-If-Generation-Match"),
				r.Header.Get("Authorization")
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
