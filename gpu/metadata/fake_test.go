package metadata

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// cloud is a metadata server of either cloud.
type cloud struct {
	t       *testing.T
	values  sync.Map // path to value
	mu      sync.Mutex
	etag    int
	change  chan struct{}     // closed, and replaced, by each change
	asked   []string          // paths with queries, as they came
	fault   http.HandlerFunc  // answers instead, unless it is nil
	seen    chan string       // receives each request's path; never blocks
	token   int               // the newest of EC2's tokens
	headers map[string]string // of each answer
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{t: t, etag: 1, change: make(chan struct{}), seen: make(chan string, 1000),
		headers: map[string]string{"Metadata-Flavor": "Google"}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	c.set(preemptedPath, "FALSE")
	c.set(maintenancePath, "NONE")
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.URL)
	return c
}

// set changes a value, and answers those that wait for a change.
func (c *cloud) set(path, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values.Store(path, value)
	c.etag++
	close(c.change)
	c.change = make(chan struct{})
}

// broken answers every request with fault, or as usual if it is nil.
func (c *cloud) broken(fault http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
	close(c.change)
	c.change = make(chan struct{})
}

func (c *cloud) state() (etag string, change <-chan struct{}, fault http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.etag), c.change, c.fault
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, r.URL.String())
	c.mu.Unlock()
	select {
	case c.seen <- r.URL.Path:
	default:
	}
	etag, change, fault := c.state()
	if fault != nil {
		fault(w, r)
		return
	}
	for name, value := range c.headers {
		w.Header().Set(name, value)
	}
	if strings.HasPrefix(r.URL.Path, "/latest/") {
		c.ec2(w, r)
		return
	}
	if r.Header.Get("Metadata-Flavor") != "Google" {
		http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
		return
	}
	if q := r.URL.Query(); q.Get("wait_for_change") == "true" && q.Get("last_etag") == etag {
		limit, _ := time.ParseDuration(q.Get("timeout_sec") + "s")
		select {
		case <-change:
		case <-r.Context().Done():
			return
		case <-time.After(limit):
		}
		if etag, _, fault = c.state(); fault != nil {
			fault(w, r)
			return
		}
	}
	c.answer(w, r, etag)
}

// ec2 answers as the metadata service version 2, which needs a token.
func (c *cloud) ec2(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.URL.Path == tokenPath && r.Method == http.MethodPut && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
		c.token++
		fmt.Fprintf(w, "token %d", c.token)
	case r.Header.Get("X-aws-ec2-metadata-token") != fmt.Sprintf("token %d", c.token):
		w.WriteHeader(http.StatusUnauthorized)
	default:
		c.answer(w, r, "")
	}
}

func (c *cloud) answer(w http.ResponseWriter, r *http.Request, etag string) {
	value, ok := c.values.Load(r.URL.Path)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("ETag", etag)
	fmt.Fprintln(w, value)
}

// await waits until a path is asked for.
func (c *cloud) await(path string) {
	c.t.Helper()
	for {
		select {
		case seen := <-c.seen:
			if seen == path {
				return
			}
		case <-c.t.Context().Done():
			c.t.Fatalf("%s was not asked for", path)
		}
	}
}

// watch starts a watcher, which ends with the test.
func (c *cloud) watch(source string) (notices <-chan Notice, log *lines) {
	ctx, stop := context.WithCancel(c.t.Context())
	told, written := make(chan Notice, 100), &lines{}
	w := Watcher{
		Source: source, Notice: 30 * time.Second, Log: slog.New(slog.NewTextHandler(written, nil)),
		pace: pace{least: time.Millisecond, poll: 2 * time.Millisecond, longPoll: 5 * time.Second, retry: 5 * time.Millisecond},
	}
	var watching sync.WaitGroup
	watching.Go(func() { w.Watch(ctx, func(n Notice) { told <- n }) })
	c.t.Cleanup(func() { stop(); watching.Wait() })
	return told, written
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
