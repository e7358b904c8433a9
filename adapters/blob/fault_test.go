package blob_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/stretchr/testify/require"
)

// faulty stands in front of an emulator and answers some calls in its place.
type faulty struct {
	inside http.Handler
	// fault answers a call, or returns false to let the emulator answer it.
	fault atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	calls atomic.Int32
	ended chan struct{} // ends stalled calls
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.calls.Add(1)
	if fault := f.fault.Load(); fault != nil && (*fault)(w, r) {
		return
	}
	f.inside.ServeHTTP(w, r)
}

// set makes calls fail from now on.
func (f *faulty) set(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.calls.Store(0)
	f.fault.Store(&fault)
}

func newFaulty(t *testing.T, stallLimit time.Duration) (served, *faulty) {
	target, err := url.Parse(emulator(t))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	f := &faulty{inside: proxy, ended: make(chan struct{})}
	server := httptest.NewServer(f)
	s := serve(t, server.URL, stallLimit)
	t.Cleanup(func() { close(f.ended); server.CloseClientConnections() })
	return s, f
}

// first makes the first n calls fail.
func (f *faulty) first(n int32, fail http.HandlerFunc) {
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if f.calls.Load() > n {
			return false
		}
		fail(w, r)
		return true
	})
}

func answers(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error": {}}`, status) }
}

// cuts closes the connection.
func cuts(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// stall sends nothing until the caller disconnects.
func (f *faulty) stall(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-f.ended:
	}
}

// TestStoreFault is about a store that is overloaded, broken or silent.
func TestStoreFault(t *testing.T) {
	t.Parallel()

	t.Run("IsRetried", func(t *testing.T) {
		t.Parallel()
		for name, fail := range map[string]func(*faulty) http.HandlerFunc{
			"503":  func(*faulty) http.HandlerFunc { return answers(http.StatusServiceUnavailable) },
			"429":  func(*faulty) http.HandlerFunc { return answers(http.StatusTooManyRequests) },
			"Cut":  func(*faulty) http.HandlerFunc { return cuts },
			"Hung": func(f *faulty) http.HandlerFunc { return f.stall },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, f := newFaulty(t, time.Minute)
				s.store(t, "clip", "one clip")

				f.first(1, fail(f))
				object, err := s.Stat(t.Context(), "clip")
				require.NoError(t, err)
				require.Equal(t, checksum("one clip"), object.Checksum)

				f.first(1, fail(f))
				listed, err := s.List(t.Context(), "", 10)
				require.NoError(t, err)
				require.Len(t, listed, 1)

				f.first(1, fail(f))
				require.NoError(t, s.Delete(t.Context(), "clip"))
				f.set(func(http.ResponseWriter, *http.Request) bool { return false })
				_, err = s.Stat(t.Context(), "clip")
				require.ErrorIs(t, err, jobs.ErrNoObject)
			})
		}
	})

	t.Run("FailsAfterSeveralTries", func(t *testing.T) {
		t.Parallel()
		s, f := newFaulty(t, time.Minute)
		f.set(func(w http.ResponseWriter, r *http.Request) bool { answers(503)(w, r); return true })
		clock := testrun.StartQuietClock()

		_, err := s.Stat(t.Context(), "clip")

		require.Error(t, err)
		require.NotErrorIs(t, err, jobs.ErrNoObject)
		require.Less(t, clock.Elapsed(), 15*time.Second)
		require.Less(t, f.calls.Load(), int32(15), "with pauses that grow")
	})

	t.Run("IsNotRetriedIfTheStoreRefuses", func(t *testing.T) {
		t.Parallel()
		s, f := newFaulty(t, time.Minute)
		f.set(func(w http.ResponseWriter, r *http.Request) bool { answers(403)(w, r); return true })

		_, err := s.Stat(t.Context(), "clip")

		require.Error(t, err)
		require.Equal(t, int32(1), f.calls.Load())
	})

	t.Run("EndsWithItsCaller", func(t *testing.T) {
		t.Parallel()
		s, f := newFaulty(t, time.Minute)
		f.set(func(w http.ResponseWriter, r *http.Request) bool { f.stall(w, r); return true })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		clock := testrun.StartQuietClock()

		_, err := s.Stat(ctx, "clip")

		require.Error(t, err)
		require.Less(t, clock.Elapsed(), 2*time.Second)
	})
}

// TestUpload_IsNeverPartial covers a store that fails during a write: the object is stored
// whole or not at all, and the link can be used again.
func TestUpload_IsNeverPartial(t *testing.T) {
	t.Parallel()

	content := strings.Repeat("clip", 100_000)
	writing := func(r *http.Request) bool { return r.Method == http.MethodPost || r.Method == http.MethodPut }
	for name, fail := range map[string]func(f *faulty, size int) http.HandlerFunc{
		"WhenTheStoreRefuses": func(*faulty, int) http.HandlerFunc { return answers(http.StatusServiceUnavailable) },
		"WhenTheStoreCuts": func(_ *faulty, size int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, int64(size/4))
				cuts(w, r)
			}
		},
		"WhenTheStoreStalls": func(f *faulty, _ int) http.HandlerFunc { return f.stall },
		"WhenTheStoreGetsATruncatedBody": func(f *faulty, size int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				part, _ := io.ReadAll(io.LimitReader(r.Body, int64(size/2)))
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(part))), int64(len(part))
				r.TransferEncoding = nil
				f.inside.ServeHTTP(w, r)
			}
		},
	} {
		for _, content := range []string{content, content[:1000]} { // a small upload takes another path
			t.Run(fmt.Sprintf("%s/%dBytes", name, len(content)), func(t *testing.T) {
				t.Parallel()
				s, f := newFaulty(t, 500*time.Millisecond)
				link := s.linkUpload(t, video("clip", content))
				f.set(func(w http.ResponseWriter, r *http.Request) bool {
					if writing(r) {
						fail(f, len(content))(w, r)
					}
					return writing(r)
				})

				status, answer := send(t, link, strings.NewReader(content))

				require.Equal(t, http.StatusServiceUnavailable, status, answer)
				f.set(func(http.ResponseWriter, *http.Request) bool { return false })
				_, err := s.Stat(t.Context(), "clip")
				require.ErrorIs(t, err, jobs.ErrNoObject)
				status, answer = send(t, link, strings.NewReader(content))
				require.Equal(t, http.StatusOK, status, answer)
			})
		}
	}

	t.Run("ButMayBeStoredThoughTheResponseWasLost", func(t *testing.T) {
		t.Parallel()
		s, f := newFaulty(t, time.Minute)
		link := s.linkUpload(t, video("clip", content))
		f.set(func(w http.ResponseWriter, r *http.Request) bool {
			if writing(r) {
				f.inside.ServeHTTP(httptest.NewRecorder(), r)
				cuts(w, r)
			}
			return writing(r)
		})

		status, _ := send(t, link, strings.NewReader(content))
		again, answer := send(t, link, strings.NewReader(content))
		object, err := s.Stat(t.Context(), "clip")

		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, http.StatusPreconditionFailed, again, answer)
		require.NoError(t, err)
		require.Equal(t, checksum(content), object.Checksum)
	})
}

func TestDownload_BreaksOffWhenTheStoreStalls(t *testing.T) {
	t.Parallel()

	s, f := newFaulty(t, 300*time.Millisecond)
	s.store(t, "clip", strings.Repeat("clip", 100_000))
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("alt") != "media" && (!onS3() || r.Method != http.MethodGet) {
			return false
		}
		w.Header().Set("Content-Length", "400000")
		_, _ = io.WriteString(w, strings.Repeat("clip", 25_000))
		w.(http.Flusher).Flush()
		f.stall(w, r)
		return true
	})

	response, err := http.Get(s.linkDownload(t, "clip"))
	require.NoError(t, err)
	defer response.Body.Close()
	read, err := io.Copy(io.Discard, response.Body)

	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, read, int64(400_000))
}
