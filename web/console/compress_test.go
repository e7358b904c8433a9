package console

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/reelay/reelay/web/console/static"
	"github.com/stretchr/testify/require"
)

// zipped asks for a path with gzip, and does not unpack the answer.
func (b *browser) zipped(t *testing.T, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
	require.NoError(t, err)
	req.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	res, err := b.client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	return res
}

func TestCompression(t *testing.T) {
	t.Parallel()

	t.Run("IsOfPagesAndStaticFiles", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		for _, path := range []string{"/jobs", "/jobs/new", static.Asset("console.css"), static.Asset("console.js")} {
			res := b.zipped(t, path)
			require.Equal(t, "gzip", res.Header.Get("Content-Encoding"), path)
			require.Contains(t, res.Header.Values("Vary"), "Accept-Encoding", path)
			packed, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			plain := b.get(t, path).Body
			require.Less(t, 3*len(packed), 2*len(plain), path)
		}
	})

	t.Run("HoldsNoEventOfAStreamBack", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		res := b.zipped(t, "/queues/live")
		require.Equal(t, "gzip", res.Header.Get("Content-Encoding"))
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))

		plain, err := gzip.NewReader(res.Body)
		require.NoError(t, err)
		first := make([]byte, len("data: <div"))
		_, err = io.ReadFull(plain, first) // while the stream is open
		require.NoError(t, err)
		require.Equal(t, "data: <div", string(first))
	})
}
