// Package enginetest has fakes of the engines that the remote runtime drives: ComfyUI, servers of
// /v1/videos, and Cog. Their answers have the shape of those that were recorded from the real ones, and
// rules make them fail in the ways that engines, proxies and networks do.
//
// A fake renders nothing by itself: Step makes the running job take one step, and Run takes steps by a clock.
package enginetest

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
)

// server is what all fakes are: an HTTP server that can be killed, with faults, a line of jobs and a
// folder that outlives it.
type server struct {
	URL string
	Dir string // the films, which a kill leaves

	t       testing.TB
	handler http.Handler
	address string
	kill    chan struct{} // closed by Kill: ends what hangs

	faults faults

	// mu guards the following and the state of the engine.
	mu      sync.Mutex
	http    *http.Server
	line    line
	renders map[string]int
	film    func(id string, film []byte) []byte
	cancels bool
	boot    func() // makes the engine's memory empty, with mu held
}

// start listens at a free port, or again at the old one.
func (s *server) start(handler http.Handler) {
	s.t.Helper()
	s.handler, s.renders, s.cancels, s.Dir = handler, map[string]int{}, true, s.t.TempDir()
	s.address = "127.0.0.1:0"
	s.listen()
	s.URL = "http://" + s.address
	s.t.Cleanup(s.Kill)
}

func (s *server) listen() {
	s.t.Helper()
	var listener net.Listener
	var err error
	testrun.Eventually(s.t, "that "+s.address+" is free", func() bool { // a client may hold the port for a moment
		listener, err = net.Listen("tcp", s.address)
		return err == nil
	})
	s.address = listener.Addr().String()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill = make(chan struct{})
	s.boot()
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0)}
	go func(running *http.Server) {
		if err := running.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.t.Error(err)
		}
	}(s.http)
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if fault := s.faults.of(r); fault != nil {
		s.mu.Lock()
		killed := s.kill
		s.mu.Unlock()
		fault(&Call{Answer: w, Request: r, Do: s.handler.ServeHTTP, Killed: killed})
		return
	}
	s.handler.ServeHTTP(w, r)
}

// Kill ends the engine as kill -9 does: connections are refused, its memory is lost, its files stay.
func (s *server) Kill() {
	s.mu.Lock()
	running := s.http
	s.http = nil
	if running != nil {
		close(s.kill)
		s.line.clear()
	}
	s.mu.Unlock()
	if running != nil {
		_ = running.Close() // the listener has nothing to lose
	}
}

// Restart kills the engine and starts it again at the same address.
func (s *server) Restart() {
	s.t.Helper()
	s.Kill()
	s.listen()
}

// Step makes the running job take a step. The last one ends it, and the next job begins.
func (s *server) Step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.advance()
}

// Run takes a step at each tick until the test ends.
func (s *server) Run(tick time.Duration) { s.every(tick, s.Step) }

// every calls a function at each tick until the test ends.
func (s *server) every(tick time.Duration, call func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for {
			select {
			case <-clock.C:
				call()
			case <-ended:
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		close(ended)
		<-stopped
	})
}

// Stall makes jobs wait for ever, or lets them go on.
func (s *server) Stall(stalled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.stalled = stalled
	s.line.next()
}

// IgnoreCancels makes the engine answer a cancel as always and render on.
func (s *server) IgnoreCancels() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = false
}

// Films replaces the films of jobs that end from now on. A nil film means that no file is written although
// the job succeeds. The function must not call the engine.
func (s *server) Films(film func(id string, film []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.film = film
}

// Renders returns how often the engine has begun to render a job, by its id. It survives a kill.
func (s *server) Renders(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renders[id]
}

// AllRenders returns how many renders have begun.
func (s *server) AllRenders() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.renders {
		total += n
	}
	return total
}

// Idle reports whether the engine renders nothing and nothing waits.
func (s *server) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line.running == nil && len(s.line.waiting) == 0
}

// filmOf returns the film of a job, or nil if it loses it.
func (s *server) filmOf(id string, shape Shape) []byte {
	film := Film(s.t, id, shape)
	if s.film != nil {
		return s.film(id, film)
	}
	return film
}
