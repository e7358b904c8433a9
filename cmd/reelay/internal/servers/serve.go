package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/reelay/reelay/graph"
	"github.com/reelay/reelay/internal/httpguard"
)

const (
	// drainTime is how long requests and streams may take to end after the process was
	// asked to stop.
	drainTime = 10 * time.Second
	// farewell is how long connections are still served after that: a request in transit is
	// answered, and the answer closes the connection.
	farewell = 500 * time.Millisecond
)

// heapFloor is the size of an allocation that is never written to, so it uses no memory
// but counts for the garbage collector. Without it, a server with a small heap collects a
// few megabytes many times a second, which took a tenth of its time. The cost is at most
// this much more garbage under load.
const heapFloor = 32 << 20

// maxHeader limits the header of a request, in bytes. net/http adds 4 KiB to this value.
const maxHeader = 32<<10 - 4<<10

// serve serves HTTP, with TLS if there is a certificate, until ctx ends. Then it lets
// requests finish. It ends streams at once and cleanly; their clients reconnect to another
// process.
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
	listener.Close() // other processes may have it open and accept new connections
	<-ended
	time.Sleep(farewell) // nothing tells when no request is in transit any more
	err := errors.Join(server.Shutdown(drain), d.wait(drain))
	if err != nil {
		return errors.Join(fmt.Errorf("some requests took longer than %v and were cut off: %w", drainTime, err), server.Close())
	}
	return nil
}

// limitsOf returns the limits that depend on the request: a request of the Videos API may
// contain an image, and objects are large. The APIs for programs refuse needless bodies in their
// own format.
func limitsOf(r *http.Request) httpguard.Limits {
	switch {
	case strings.HasPrefix(r.URL.Path, "/objects/"):
		return httpguard.Limits{Stall: 30 * time.Second, Write: 30 * time.Second}
	case strings.HasPrefix(r.URL.Path, "/v1/videos"):
		return httpguard.Limits{Body: 2 * time.Minute, Bodies: true}
	case strings.HasPrefix(r.URL.Path, "/v1/"), strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Path != "/api/docs":
		return httpguard.Limits{Bodies: true}
	}
	return httpguard.Limits{}
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
		if r.URL.Path == "/readyz" {
			http.Error(w, "this process is shutting down", http.StatusServiceUnavailable)
			return
		}
	}
	// A chunked request may also have had a Content-Length, which net/http hides. A proxy in
	// front that used it would see the next request start elsewhere, so the connection must
	// carry no further request.
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

// isStream reports whether the answer to a request has no end, or is held for long
// (?wait in REST). GraphQL has no streams for GET. WebSockets are closed by their handler.
func isStream(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/api/") && r.URL.Query().Has("wait") {
		return true
	}
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") && (r.Method == http.MethodPost || r.URL.Path != "/graphql")
}

// listen opens the address that the API is served on. fd:N is a listening socket that
// this process inherited as descriptor N.
func listen(address string) (net.Listener, error) {
	if fd, ok := inherited(address); ok {
		file := os.NewFile(fd, address)
		defer file.Close()
		listener, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: this process was started without a listening socket there: %w", address, err)
		}
		return listener, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf(
			"cannot listen on %s: %w; choose another address with --listen, or a free port with --listen 127.0.0.1:0; "+
				"with task: go tool task up -- --listen …",
			address, errors.Unwrap(err),
		)
	}
	return listener, nil
}

// inherited parses fd:N.
func inherited(address string) (uintptr, bool) {
	number, ok := strings.CutPrefix(address, "fd:")
	fd, err := strconv.Atoi(number)
	return uintptr(fd), ok && err == nil && fd >= 3 && fd < 1<<16
}

// inheritable returns the listener's socket for child processes. The File method of net
// would make the socket blocking for all processes that have it open.
func inheritable(listener net.Listener) (*os.File, error) {
	conn, err := listener.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var file *os.File
	failed := conn.Control(func(fd uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		var copied int
		if copied, err = syscall.Dup(int(fd)); err == nil {
			syscall.CloseOnExec(copied)
			file = os.NewFile(uintptr(copied), "listener")
		}
	})
	return file, errors.Join(failed, err)
}
