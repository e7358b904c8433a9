package main

import (
	"log/slog"
	"os"
	"sync"
)

// roster is a file with the process ids of a running `up`, by name. It is for debugging
// and for tests that kill processes.
type roster struct {
	path string
	mu   sync.Mutex
	pids map[string]int
}

const rosterFile = "processes.json"

func newRoster(path string) *roster {
	r := &roster{path: path, pids: map[string]int{}}
	r.set("up", os.Getpid())
	return r
}

func (r *roster) set(name string, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pids[name] = pid
	r.write()
}

func (r *roster) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pids, name)
	r.write()
}

func (r *roster) write() {
	if err := writePrivate(r.path, r.pids); err != nil {
		slog.Warn("could not update the list of processes", "error", err)
	}
}

// close removes the file after all processes have ended.
func (r *roster) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = os.Remove(r.path) // a stale file is harmless: `up` has ended
}
