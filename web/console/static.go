package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"

	"github.com/reelay/reelay/jobs"
)

// `go tool task assets` fills the folder vendor. Without it the pages work, but do not
// update live.
//
//go:embed static
var staticFiles embed.FS

// asset returns the address of a static file, which changes with its content,
// or "" if there is none.
func asset(name string) string { return assets[name] }

var assets = func() map[string]string {
	found := map[string]string{}
	for _, name := range []string{"console.css", "monitor.css", "console.js", "live.js", "icon.svg", "vendor/htmx.js", "graphiql.css", "graphiql.js", "vendor/graphiql.css", "vendor/graphiql.js"} {
		content, err := staticFiles.ReadFile("static/" + name)
		if err != nil {
			continue
		}
		sum := sha256.Sum256(content)
		found[name] = "/static/" + name + "?v=" + hex.EncodeToString(sum[:8])
	}
	return found
}()

func (c *console) static(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	known := assets[r.URL.Path[len("/static/"):]]
	if known == "" {
		return errNoPage
	}
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.RequestURI() == known {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, r.URL.Path)
	return nil
}
