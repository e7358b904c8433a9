package front

import (
	"context"
	"net/http"
	"time"
)

// Gate passes requests to the API once it is open. Until then a request waits for a moment: a proxy
// that found the port open does not try another process for it. Once the process was asked to stop,
// /readyz says so.
type Gate struct {
	// Why, if it is not nil, says on /readyz why the gate is still shut; "" if only PostgreSQL is missing. It is for operators: other
	// callers are asked to repeat their request.
	Why func() string
	// Outside serves paths also while the gate is shut.
	Outside map[string]http.Handler

	asked  context.Context // ends when the process is asked to stop
	inside http.Handler
	opened chan struct{}
}

// gateWait is how long a request waits: several times the start of an api whose stores are available.
const gateWait = 2 * time.Second

// NewGate returns a shut gate of a process that is asked to stop when asked ends.
func NewGate(asked context.Context) *Gate { return &Gate{asked: asked, opened: make(chan struct{})} }

// Later returns a context that ends some time after the process was asked to stop: at once if the gate is still shut,
// since then no request is served.
func (d *Gate) Later(delay time.Duration) (context.Context, context.CancelFunc) {
	late, stop := context.WithCancel(context.WithoutCancel(d.asked))
	context.AfterFunc(d.asked, func() {
		defer stop()
		select {
		case <-d.opened:
		default:
			return
		}
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-late.Done():
		}
	})
	return late, stop
}

// Open passes requests to inside from now on.
func (d *Gate) Open(inside http.Handler) {
	d.inside = inside
	close(d.opened)
}

// ServeHTTP implements http.Handler.
func (d *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.asked.Err() != nil && r.URL.Path == "/readyz" {
		http.Error(w, "this process is shutting down", http.StatusServiceUnavailable)
		return
	}
	if outside, ok := d.Outside[r.URL.Path]; ok {
		outside.ServeHTTP(w, r)
		return
	}
	if d.isOpen(r) {
		d.inside.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/healthz" {
		_, _ = w.Write([]byte("ok\n"))
		return
	}
	w.Header().Set("Retry-After", "2")
	why := "This API waits for PostgreSQL. Try again in 2 s."
	if d.Why != nil {
		if said := d.Why(); said != "" {
			why = "This API is not ready. Try again in 2 s."
			if r.URL.Path == "/readyz" {
				why = said
			}
		}
	}
	http.Error(w, why, http.StatusServiceUnavailable)
}

// isOpen reports whether the gate is open, for requests other than those for health after a wait.
func (d *Gate) isOpen(r *http.Request) bool {
	wait := gateWait
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		wait = 0
	}
	select {
	case <-d.opened:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-d.opened:
		return true
	case <-timer.C:
	case <-r.Context().Done():
	}
	return false
}
