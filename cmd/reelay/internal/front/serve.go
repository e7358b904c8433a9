package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/httpguard"
)

const (
	// drainTime is how long requests and streams may take to end after the process was
	// asked to stop.
	DrainTime = 10 * time.Second
	// farewell is how long connections are still served after that: a request in transit is
	// answered, and the answer closes the connection.
	farewell = 500 * time.Millisecond
)

// heapFloor is the size of an allocation that is never written to, so it uses no memory
// but counts for the garbage collector. Without it, a server with a small heap collects a
// few megabytes many times a second, which took a tenth of its time. The cost is at most
// this much more garbage under load.
const heapFloor = 32 << 20

// MaxHeader limits the header of a request, in bytes. net/http adds 4 KiB to this value.
const MaxHeader = 32<<10 - 4<<10

// Serve serves HTTP, with TLS if there is a certificate, until ctx ends. Then it lets
// requests finish. It ends streams at once and cleanly; their clients reconnect to another
// process.
func Serve(ctx context.Context, listener net.Listener, files TLSFiles, handler http.Handler) error {
	defer runtime.KeepAlive(make([]byte, heapFloor))
	d := &drainer{inside: handler, asked: ctx}
	server := &http.Server{
		Handler:           httpguard.New(d, limitsOf),
		ConnContext:       httpguard.ConnContext,
		ReadHeaderTimeout: 5 * time.Second, // of a TLS handshake, too
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxHeader,
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
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), DrainTime)
	defer cancel()
	listener.Close() // other processes may have it open and accept new connections
	<-ended
	time.Sleep(farewell) // nothing tells when no request is in transit any more
	err := errors.Join(server.Shutdown(drain), d.wait(drain))
	if err != nil {
		return errors.Join(fmt.Errorf("some requests took longer than %v and were cut off: %w", DrainTime, err), server.Close())
	}
	return nil
}

// maxFiles returns how many files, including connections, this process may have open.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return limit.Cur
}

// drainer ends the requests that cannot finish before the process stops.
type drainer struct {
	inside  http.Handler
	asked   context.Context // ends when the process is asked to stop
	streams sync.WaitGroup
}

func (d *drainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.asked.Err() != nil {
		w.Header().Set("Connection", "close")
	}
	// A chunked request may also have had a Content-Length, which net/http hides. A proxy in
	// front that used it would see the next request start elsewhere, so the connection must
	// carry no further request.
	if len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
	if !IsStream(r) {
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
