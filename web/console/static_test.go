package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatic(t *testing.T) {
	t.Parallel()

	t.Run("IsKeptForAsLongAsItsContentStays", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)

		got := b.get(t, asset("console.css"))
		require.Equal(t, http.StatusOK, got.Status)
		require.Equal(t, "text/css; charset=utf-8", got.Header.Get("Content-Type"))
		require.Equal(t, "public, max-age=31536000, immutable", got.Header.Get("Cache-Control"))

		require.Equal(t, "no-cache", b.get(t, "/static/console.css?v=old").Header.Get("Cache-Control"))
	})
}
