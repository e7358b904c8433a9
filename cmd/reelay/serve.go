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
	"time"

	"github.com/reelay/reelay/graph"
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

// serve answers HTTP until ctx ends, then lets requests finish. Streams end at
// once, in good order: their clients come back elsewhere.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	defer runtime.KeepAlive(make([]byte, heapFloor))
	d := &drainer{inside: handler, asked: ctx}
	server := &http.Server{
		Handler:           d,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
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
