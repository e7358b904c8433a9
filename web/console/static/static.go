// Package static has the scripts, styles and pictures of the console.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

// `go tool task assets` fills the folder vendor. Without it the pages work, but do not
// update live.
//
//go:embed *
var embedded embed.FS

// staticFile is a file that the console serves.
type staticFile struct {
	content []byte
	url     string // changes with the content
}

// Asset returns the address of a static file, or "" if there is none: a file of this folder,
// or console.css, which is all style sheets of the folder css in the order of their names.
func Asset(name string) string { return assets()[name].url }

// Read returns the content of a static file and its address, if there is one.
func Read(name string) (content []byte, url string, ok bool) {
	file, ok := assets()[name]
	return file.content, file.url, ok
}

// assets are made when they are first needed: only processes that serve the console do.
var assets = sync.OnceValue(func() map[string]staticFile {
	found := map[string]staticFile{}
	add := func(name string, content []byte) {
		sum := sha256.Sum256(content)
		found[name] = staticFile{content, "/static/" + name + "?v=" + hex.EncodeToString(sum[:8])}
	}
	var styles []byte
	err := fs.WalkDir(embedded, ".", func(name string, entry fs.DirEntry, err error) error {
		kind := path.Ext(name)
		if err != nil || kind != ".css" && kind != ".js" && kind != ".svg" {
			return err
		}
		content, err := embedded.ReadFile(name)
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
})
