package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reelay/reelay/internal/localstack"
)

// store is the object store behind a layer that fails on request.
type store struct {
	objects  *localstack.Objects
	dir      string
	listener net.Listener
	server   *http.Server

	mode    atomic.Pointer[storeFault] // nil: no fault
	refused atomic.Int64
	partial atomic.Int64
	slowed  atomic.Int64
	cut     atomic.Int64
	mu      sync.Mutex
	flipped map[string]bool // keys whose bytes we damaged
}

// A storeFault is what happens to a share of the requests to the store.
type storeFault struct {
	name   string
	share  float64
	status int           // answered in place of the store, if not 0
	delay  time.Duration // before the store is asked
	// partial cuts an upload in the middle; cut breaks the connection after the
	// store has done what it was asked.
	partial, cut bool
}

var storeFaults = []*storeFault{
	{name: "503", share: 0.6, status: http.StatusServiceUnavailable},
	{name: "429", share: 0.6, status: http.StatusTooManyRequests},
	{name: "slow", share: 1, delay: 800 * time.Millisecond},
	{name: "answer cut", share: 0.5, cut: true},
	{name: "partial upload", share: 0.7, partial: true},
}

const bucket = "reelay-chaos"

func startStore(dir string) (*store, error) {
	objects, err := localstack.StartObjects(localstack.ObjectsConfig{Dir: dir, Bucket: bucket})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{objects: objects, dir: dir, listener: listener, flipped: map[string]bool{}}
	upstream := &url.URL{Scheme: "http", Host: objects.Host()}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	s.server = &http.Server{Handler: s.fail(proxy), ReadHeaderTimeout: 10 * time.Second}
	go s.server.Serve(listener)
	return s, nil
}

func (s *store) host() string { return s.listener.Addr().String() }

func (s *store) stop() {
	s.server.Close()
	_ = s.objects.Stop(stopping())
}

// fail applies the current fault to requests.
func (s *store) fail(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := s.mode.Load()
		if fault == nil || rand.Float64() >= fault.share {
			next.ServeHTTP(w, r)
			return
		}
		upload := r.Method == http.MethodPost || r.Method == http.MethodPut
		switch {
		case fault.status != 0:
			s.refused.Add(1)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "rehearsed", fault.status)
			return
		case fault.partial && upload:
			s.partial.Add(1)
			_, _ = io.CopyN(io.Discard, r.Body, 6<<10)
			panic(http.ErrAbortHandler)
		case fault.cut:
			s.cut.Add(1)
			next.ServeHTTP(discard{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		case fault.delay > 0:
			s.slowed.Add(1)
			sleep(r.Context(), fault.delay)
		}
		next.ServeHTTP(w, r)
	})
}

// discard is an answer that is dropped.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// read returns an object's bytes and bypasses all faults.
func (s *store) read(key string) ([]byte, error) {
	answer, err := http.Get("http://" + s.objects.Host() + "/storage/v1/b/" + bucket + "/o/" + url.PathEscape(key) + "?alt=media")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the store answers %s for %s", answer.Status, key)
	}
	return io.ReadAll(answer.Body)
}

// flip flips one bit of a stored object, like a faulty disk: the store still reports the old
// checksum.
func (s *store) flip(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := filepath.Join(s.dir, "buckets", bucket, filepath.FromSlash(key))
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(s.dir, "buckets", bucket, url.PathEscape(key))
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	one := make([]byte, 1)
	if _, err := file.ReadAt(one, info.Size()/2); err != nil {
		return err
	}
	one[0] ^= 1
	if _, err := file.WriteAt(one, info.Size()/2); err != nil {
		return err
	}
	s.flipped[key] = true
	return nil
}

func (s *store) damaged(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flipped[strings.TrimPrefix(key, "/")]
}
