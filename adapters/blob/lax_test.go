package blob_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/reelay/reelay/adapters/blob"
)

// laxStore speaks Amazon's protocol, but enforces nothing: it overwrites, ignores checksums, conditions,
// signatures and ranges. So do old releases of several stores.
type laxStore struct {
	mu      sync.Mutex
	objects map[string]string // by key
	checked sync.Map          // metadata by key

	refuses   string       // the code of the error of every call
	slow      atomic.Int32 // how many calls are answered SlowDown
	versions  bool
	lifecycle string // rules
}

func (l *laxStore) open(t *testing.T) *blob.Store {
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	return openS3(t, blob.Config{
		Place: blob.Place{Kind: blob.KindS3, Bucket: "clips", Endpoint: server.URL, Region: "eu-1", Addressing: "path"},
		Own:   []string{"artifacts/", "checkpoints/", "inputs/"},
		Keys:  credentials.NewStaticV4("key", "hunter2", ""),
	})
}

// ServeHTTP implements http.Handler.
func (l *laxStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/clips"), "/")
	query := r.URL.Query()
	switch {
	case l.slow.Add(-1) >= 0:
		l.fail(w, http.StatusServiceUnavailable, "SlowDown")
	case l.refuses != "":
		l.fail(w, http.StatusForbidden, l.refuses)
	case query.Has("versioning"):
		status := map[bool]string{true: "<Status>Enabled</Status>"}[l.versions]
		_, _ = fmt.Fprintf(w, "<VersioningConfiguration>%s</VersioningConfiguration>", status)
	case query.Has("lifecycle"):
		if l.lifecycle == "" {
			l.fail(w, http.StatusNotFound, "NoSuchLifecycleConfiguration")
			return
		}
		_, _ = fmt.Fprintf(w, "<LifecycleConfiguration>%s</LifecycleConfiguration>", l.lifecycle)
	case key == "": // the bucket exists
	default:
		l.object(w, r, key)
	}
}

func (l *laxStore) object(w http.ResponseWriter, r *http.Request, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	content, found := l.objects[key]
	switch {
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it was cut off
		}
		l.objects[key] = string(body)
		l.checked.Store(key, r.Header.Get("X-Amz-Meta-Reelay-Crc32c"))
		w.Header().Set("ETag", `"tag"`)
	case r.Method == http.MethodDelete:
		delete(l.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		l.fail(w, http.StatusNotFound, "NoSuchKey")
	default:
		if sum, ok := l.checked.Load(key); ok {
			w.Header().Set("X-Amz-Meta-Reelay-Crc32c", sum.(string))
		}
		w.Header().Set("ETag", `"tag"`)
		w.Header().Set("Content-Type", "video/mp4")
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = io.WriteString(w, content)
	}
}

func (l *laxStore) fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>It said so.</Message></Error>", code)
}
