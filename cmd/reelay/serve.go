package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/httpguard"
)

const (
	// drainTime is how long requests and streams may take to end when the process
	// is asked to.
	drainTime = 10 * time.Second
	// farewell is how long connections are still served then: a request that was
	// on its way is answered, and with the answer its sender learns to go.
	farewell = 500 * time.Millisecond
)

// heapFloor is how many bytes a server has that are never written to, and so are
// nowhere but in the collector's reckoning: a server with little on its heap would else collect a
// few megabytes of garbage many times a second, which was a tenth of its time.
// Under load it holds that much more garbage at most.
const heapFloor = 32 << 20

// maxHeader is how many bytes the head of a request may have. net/http adds 4 KiB to what it
// is given.
const maxHeader = 32<<10 - 4<<10

// serve answers HTTP, with TLS if there is a certificate, until ctx ends, then lets requests
// finish. Streams end at once, in good order: their clients come back elsewhere.
func serve(ctx context.Context, listener net.Listener, files tlsFiles, handler http.Handler) error {
	defer runtime.KeepAlive(make([]byte, heapFloor))
	d := &drainer{inside: handler, asked: ctx}
	server := &http.Server{
		Handler:           httpguard.New(d, limitsOf),
		ConnContext:       httpguard.ConnContext,
		ReadHeaderTimeout: 5 * time.Second, // of a TLS handshake, too
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: 10 * time.Second},
	}
	connections := httpguard.NewConnections(httpguard.BoundsFor(maxFiles()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(files.secure(connections.Listen(listener))) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	listener.Close() // others may have it open, and take what comes from now on
	<-ended
	time.Sleep(farewell)
	err := errors.Join(server.Shutdown(drain), d.wait(drain))
	if err != nil {
		return errors.Join(fmt.Errorf("some requests took longer than %v and were cut off: %w", drainTime, err), server.Close())
	}
	return nil
}

// limitsOf are the limits that are not the same for all requests: a request of the Videos API
// may carry an image, and objects are large.
func limitsOf(r *http.Request) httpguard.Limits {
	switch {
	case strings.HasPrefix(r.URL.Path, "/objects/"):
		return httpguard.Limits{Stall: 30 * time.Second, Write: 30 * time.Second}
	case strings.HasPrefix(r.URL.Path, "/v1/videos"):
		return httpguard.Limits{Body: 2 * time.Minute}
	}
	return httpguard.Limits{}
}

// maxFiles is how many files, and so connections, this process may have open.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return limit.Cur
}

// drainer ends what its process cannot finish once that is asked to end.
type drainer struct {
	inside  http.Handler
	asked   context.Context // ends when the process is asked to
	streams sync.WaitGroup
}

func (d *drainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.asked.Err() != nil {
		w.Header().Set("Connection", "close")
		if r.URL.Path == "/readyz" {
			http.Error(w, "this process is shutting down", http.StatusServiceUnavailable)
			return
		}
	}
	// A chunked request may have had a Content-Length too, of which net/http tells
	// nobody. Who counted by that, in front of us, takes another place for the next
	// request's begin: there is to be none.
	if len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
	if !isStream(r) {
		d.inside.ServeHTTP(w, r)
		return
	}
	d.streams.Add(1)
	defer d.streams.Done()
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	defer context.AfterFunc(d.asked, func() { end(graph.ErrRestart) })()
	d.inside.ServeHTTP(w, r.WithContext(ctx))
}

// wait waits for the streams.
func (d *drainer) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { d.streams.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isStream tells whether a request's answer may go on for ever, or is held for
// long (REST's ?wait). GraphQL has no stream for a GET. Sockets are closed by what
// serves them.
func isStream(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Query().Has("wait") {
		return true
	}
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") && (r.Method == http.MethodPost || r.URL.Path != "/graphql")
}
