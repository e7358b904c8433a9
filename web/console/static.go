package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/reelay/reelay/jobs"
)

// `go tool task assets` fills the folder vendor. Without it the pages work, but do not
// update live.
//
//go:embed static
var staticFiles embed.FS

// staticFile is a file that the console serves.
type staticFile struct {
	content []byte
	url     string // changes with the content
}

// asset returns the address of a static file, or "" if there is none: a file of the folder
// static, or console.css, which is all style sheets of static/css in the order of their
// names.
func asset(name string) string { return assets[name].url }

var assets = func() map[string]staticFile {
	found := map[string]staticFile{}
	add := func(name string, content []byte) {
		sum := sha256.Sum256(content)
		found[name] = staticFile{content, "/static/" + name + "?v=" + hex.EncodeToString(sum[:8])}
	}
	var styles []byte
	err := fs.WalkDir(staticFiles, "static", func(name string, entry fs.DirEntry, err error) error {
		kind := path.Ext(name)
		if err != nil || kind != ".css" && kind != ".js" && kind != ".svg" {
			return err
		}
		content, err := staticFiles.ReadFile(name)
		name = strings.TrimPrefix(name, "static/")
		if strings.HasPrefix(name, "css/") {
			styles = append(styles, content...)
		} else {
			add(name, content)
		}
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("static files: %v", err)) // they are part of the program
	}
	add("console.css", styles)
	return found
}()

func (c *console) static(w http.ResponseWriter, r *http.Request, _ jobs.Principal) error {
	name := strings.TrimPrefix(r.URL.Path, "/static/")
	known, ok := assets[name]
	if !ok {
		return errNoPage
	}
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.RequestURI() == known.url {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(known.content))
	return nil
}
