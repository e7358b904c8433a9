// Package health answers probes of an agent, such as those of Kubernetes.
package health

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Probes knows of each worker of an agent whether it is ready. A nil *Probes can be used.
type Probes struct {
	mu      sync.Mutex
	unready []func() string
}

// New returns the probes of an agent with so many workers, which have not started.
func New(workers int) *Probes {
	p := &Probes{unready: make([]func() string, workers)}
	for slot := range workers {
		p.Set(slot, func() string { return "it starts" })
	}
	return p
}

// Set sets what tells why the worker in a slot is not ready: it returns "" while the worker is. Each
// probe calls it.
func (p *Probes) Set(slot int, unready func() string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unready[slot] = unready
}

// Unready returns a line for each worker that is not ready, or "" if all are.
func (p *Probes) Unready() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines strings.Builder
	for slot, unready := range p.unready {
		if why := unready(); why != "" {
			fmt.Fprintf(&lines, "worker %d is not ready: %s\n", slot, strings.ReplaceAll(why, "\n", " "))
		}
	}
	return lines.String()
}

// Handler serves /healthz, which is 200 while the process runs, and /readyz, which is 503 with the
// reasons unless all workers are ready.
func (p *Probes) Handler() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter) { w.Write([]byte("ok\n")) }
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { ok(w) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := p.Unready(); why != "" {
			http.Error(w, strings.TrimSuffix(why, "\n"), http.StatusServiceUnavailable)
			return
		}
		ok(w)
	})
	return mux
}

const (
	// maxHeader limits the header of a request, in bytes. net/http adds 4 KiB to this value.
	maxHeader = 4 << 10
	// maxTime limits how long a request, or a connection without one, may take.
	maxTime = 5 * time.Second
)

// Serve serves the probes at an address such as ":8081" until ctx ends. It returns once it listens.
func (p *Probes) Serve(ctx context.Context, address string, log *slog.Logger) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p.Handler(), ReadTimeout: maxTime, WriteTimeout: maxTime, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(listener) // ends with the listener
	log.Info("the agent serves its probes", "address", listener.Addr().String())
	return nil
}
