package sse_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/internal/httpguard"
	"github.com/reelay/reelay/internal/sse"
	"github.com/stretchr/testify/require"
)

const writeLimit = 10 * time.Second

// strict is an answer that must not be used after its handler has returned.
type strict struct {
	http.ResponseWriter
	ended atomic.Bool
	late  atomic.Int64
}

func (s *strict) Write(p []byte) (int, error) {
	s.check()
	return s.ResponseWriter.Write(p)
}

func (s *strict) FlushError() error {
	s.check()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

func (s *strict) check() {
	if s.ended.Load() {
		s.late.Add(1)
	}
}

// answer serves a stream over one unbuffered connection. It returns the result of Serve
// and how often the answer was used afterwards.
func answer(t *testing.T, every time.Duration, run func(context.Context, *sse.Stream) error, read func(io.Reader)) (late int64,
	result error) {
	ours, conn := net.Pipe()
	connections := make(chan net.Conn, 1)
	connections <- ours
	used := &strict{}
	server := &http.Server{Handler: httpguard.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used.ResponseWriter = w
		result = sse.Serve(r.Context(), used, every, sse.Comment, run)
		used.ended.Store(true)
	}), nil)}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(pipes(connections)) })
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	read(conn)
	time.Sleep(time.Hour)
	conn.Close()
	require.NoError(t, server.Close())
	served.Wait()
	return used.late.Load(), result
}

type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func TestServe(t *testing.T) {
	t.Parallel()

	t.Run("SendsAsAStream", func(t *testing.T) {
		t.Parallel()
		w := httptest.NewRecorder()
		failure := errors.New("over")

		err := sse.Serve(t.Context(), w, time.Hour, sse.Comment, func(_ context.Context, s *sse.Stream) error {
			require.NoError(t, s.Send([]byte("data: 1\n\n")))
			require.True(t, w.Flushed)
			return failure
		})

		require.ErrorIs(t, err, failure)
		require.Equal(t, "data: 1\n\n", w.Body.String())
		require.Equal(t, http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"}},
			w.Header())
	})

	t.Run("SendsPingsWhileNothingHappens", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var got []byte
			late, err := answer(t, 10*time.Second, func(_ context.Context, s *sse.Stream) error {
				time.Sleep(25 * time.Second)
				return s.Send([]byte("data: 1\n\n"))
			}, func(conn io.Reader) {
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				got, err = io.ReadAll(res.Body)
				require.NoError(t, err)
			})

			require.NoError(t, err)
			require.Equal(t, ":\n\n:\n\ndata: 1\n\n", string(got))
			require.Zero(t, late)
		})
	})

	// The next ping is due at the moment when a write fails.
	for name, size := range map[string]int{"AtOnce": 1 << 20, "WithPingsOnly": 0} {
		t.Run("EndsIfTheClientNeverReads/"+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				late, err := answer(t, writeLimit, func(ctx context.Context, s *sse.Stream) error {
					if size > 0 {
						return s.Send([]byte(strings.Repeat("x", size)))
					}
					<-ctx.Done()
					return ctx.Err()
				}, func(io.Reader) {})

				if size > 0 {
					require.ErrorIs(t, err, sse.ErrSlow)
				}
				require.Error(t, err) // net/http also ends the context when a write fails
				require.Zero(t, late)
			})
		})
	}

	t.Run("ReturnsErrSlowWhateverRunReturns", func(t *testing.T) {
		t.Parallel()
		gone := errors.New("gone")

		err := sse.Serve(t.Context(), broken{httptest.NewRecorder(), gone}, time.Millisecond, sse.Comment,
			func(ctx context.Context, _ *sse.Stream) error {
				<-ctx.Done()
				return ctx.Err()
			})

		require.ErrorIs(t, err, sse.ErrSlow)
		require.ErrorIs(t, err, gone)
	})

	t.Run("WaitsForAPingThatIsBeingWritten", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := &held{ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), release: make(chan struct{})}
			ended := make(chan error, 1)
			go func() {
				ended <- sse.Serve(t.Context(), w, time.Second, sse.Comment, func(context.Context, *sse.Stream) error {
					<-w.writing
					return nil
				})
			}()

			time.Sleep(time.Minute)
			require.Empty(t, ended)
			close(w.release)

			require.NoError(t, <-ended)
		})
	})
}

// held is an answer whose writes block until it is released.
type held struct {
	*httptest.ResponseRecorder
	once             sync.Once
	writing, release chan struct{}
}

func (h *held) Write(p []byte) (int, error) {
	h.once.Do(func() { close(h.writing) })
	<-h.release
	return h.ResponseRecorder.Write(p)
}

// broken is an answer that cannot be written.
type broken struct {
	*httptest.ResponseRecorder
	err error
}

func (b broken) Write([]byte) (int, error) { return 0, b.err }
