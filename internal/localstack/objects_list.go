package localstack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listPage is the default and maximum number of objects on one page of a list.
const listPage = 1000

// pager answers requests for one page of the objects of a bucket. It reads the names in
// order, up to the end of the page, and asks the emulator about each. The emulator itself
// would read every object for each page and block writes meanwhile: 2 s for 50,000 objects.
type pager struct {
	http.Handler        // the emulator
	root         string // of the buckets' folders
}

// ServeHTTP implements http.Handler.
func (p *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, list := strings.CutSuffix(r.URL.EscapedPath(), "/o")
	bucket, ofBucket := strings.CutPrefix(path, "/storage/v1/b/")
	if r.Method != http.MethodGet || !list || !ofBucket || strings.Contains(bucket, "/") {
		p.Handler.ServeHTTP(w, r)
		return
	}
	asked := r.URL.Query()
	for name := range asked { // the emulator handles a list with any other option
		if !slices.Contains([]string{"alt", "fields", "maxResults", "pageToken", "prefix", "prettyPrint", "projection", "startOffset"}, name) &&
			asked.Get(name) != "" && asked.Get(name) != "false" {
			p.Handler.ServeHTTP(w, r)
			return
		}
	}
	most, err := strconv.Atoi(cmp.Or(asked.Get("maxResults"), "0"))
	if err != nil || most < 0 || bucket == "" || strings.HasPrefix(bucket, ".") {
		p.Handler.ServeHTTP(w, r) // it returns the error
		return
	}
	if most == 0 || most > listPage {
		most = listPage
	}
	l := &listing{
		folder: filepath.Join(p.root, bucket), prefix: asked.Get("prefix"), from: cmp.Or(asked.Get("pageToken"), asked.Get("startOffset")),
		most: most,
		read: func(name string) json.RawMessage { return p.read(r, bucket, name) },
	}
	if err := l.walk(""); err != nil {
		p.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // a client that has gone needs no answer
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items,omitempty"`
		Next  string            `json:"nextPageToken,omitempty"`
	}{"storage#objects", l.items, l.next})
}

// read returns an object as the emulator shows it, or nil if it does not exist (yet).
func (p *pager) read(list *http.Request, bucket, name string) json.RawMessage {
	one := list.Clone(list.Context())
	one.URL = &url.URL{
		Path: "/storage/v1/b/" + bucket + "/o/" + name, RawPath: "/storage/v1/b/" + url.PathEscape(bucket) + "/o/" + url.PathEscape(name),
		RawQuery: url.Values{"projection": list.URL.Query()["projection"]}.Encode(),
	}
	one.RequestURI = one.URL.RequestURI()
	one.Header.Del("Accept-Encoding")
	shown := &answer{header: http.Header{}, status: http.StatusOK}
	p.Handler.ServeHTTP(shown, one)
	if shown.status != http.StatusOK {
		return nil
	}
	return shown.body.Bytes()
}

// answer is a recorded response.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// Write implements http.ResponseWriter.
func (a *answer) Write(part []byte) (int, error) { return a.body.Write(part) }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// listing collects a page: the objects whose names begin with prefix and are not less than
// from, in order.
type listing struct {
	folder, prefix, from string
	most                 int
	read                 func(name string) json.RawMessage

	items []json.RawMessage
	next  string // the first object after the page
}

// walk collects the objects in a folder of the bucket: "" or a path that ends in a slash.
func (l *listing) walk(path string) error {
	entries, err := os.ReadDir(filepath.Join(l.folder, path))
	if errors.Is(err, fs.ErrNotExist) && path != "" {
		return nil // its last object was deleted just now
	}
	if err != nil {
		return err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = path + entry.Name()
		if entry.IsDir() {
			names[i] += "/" // so that a folder sorts like the names of its objects
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if l.next != "" {
			return nil
		}
		if strings.HasSuffix(name, "/") {
			before := name < l.from && !strings.HasPrefix(l.from, name)
			if !before && (strings.HasPrefix(name, l.prefix) || strings.HasPrefix(l.prefix, name)) {
				if err := l.walk(name); err != nil {
					return err
				}
			}
			continue
		}
		if name < l.from || !strings.HasPrefix(name, l.prefix) {
			continue
		}
		if item := l.read(name); item == nil {
			continue
		} else if len(l.items) < l.most {
			l.items = append(l.items, item)
		} else {
			l.next = name
		}
	}
	return nil
}
