package console

import (
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/reelay/reelay/web/console/static"
	"github.com/stretchr/testify/require"
)

func TestStatic(t *testing.T) {
	t.Parallel()

	t.Run("IsKeptForAsLongAsItsContentStays", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)

		got := b.get(t, static.Asset("console.css"))
		require.Equal(t, http.StatusOK, got.Status)
		require.Equal(t, "text/css; charset=utf-8", got.Header.Get("Content-Type"))
		require.Equal(t, "public, max-age=31536000, immutable", got.Header.Get("Cache-Control"))

		require.Equal(t, "no-cache", b.get(t, "/static/console.css?v=old").Header.Get("Cache-Control"))
	})

	// GraphiQL and asynqmon have pages of their own.
	t.Run("IsSmall", func(t *testing.T) {
		t.Parallel()

		const most = 150_000
		b, total, sizes := stranger(t), 0, map[string]int{}
		names := []string{"console.css"}
		require.NoError(t, fs.WalkDir(os.DirFS("static"), ".", func(name string, entry fs.DirEntry, err error) error {
			if kind := path.Ext(name); kind == ".js" || kind == ".svg" || kind == ".css" && path.Dir(name) != "css" {
				names = append(names, name)
			}
			return err
		}))
		for _, name := range names {
			if strings.HasPrefix(path.Base(name), "graphiql") || name == "monitor.css" {
				continue
			}
			got := b.request(t, http.MethodGet, static.Asset(name), nil, http.Header{"Accept-Encoding": {"gzip"}})
			require.Equal(t, http.StatusOK, got.Status, name)
			sizes[name] = len(got.Body)
			total += len(got.Body)
		}
		require.LessOrEqual(t, total, most, "all scripts and styles, compressed: %v", sizes)
		t.Logf("%d bytes: %v", total, sizes)
	})
}
