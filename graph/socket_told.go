package graph

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/reelay/reelay/jobs"
)

// question is who asked, in which words, to be told of what. An answer may have links,
// which are made with base.
type question struct {
	who   jobs.Principal
	base  string
	words [sha256.Size]byte
	event any // a pointer to it
}

// told keeps for a moment how events were told, so that thousands of listeners
// who asked in the same words cost as much as one.
type told struct {
	mu    sync.Mutex
	said  map[question]*telling
	swept time.Time
}

// telling is how one event is told.
type telling struct {
	at   time.Time
	done chan struct{} // closed when there is an answer, or none could be made
	raw  []byte
}

const (
	// toldFor is how long an answer is good for: it may tell more than the event,
	// such as how its job is now.
	toldFor = time.Second
	// maxTold and maxToldBytes bound what is kept: 1,024 answers of 16 KiB at most.
	maxTold      = 1024
	maxToldBytes = 16 << 10
)

// once returns the answer to a question, which tell makes if nobody has asked of
// late. It is not to be written to.
func (t *told) once(q question, tell func() []byte) []byte {
	now := time.Now()
	t.mu.Lock()
	t.sweep(now)
	said := t.said[q]
	if said != nil && now.Sub(said.at) < toldFor {
		t.mu.Unlock()
		<-said.done
		if said.raw != nil {
			return said.raw
		}
		return tell()
	}
	if len(t.said) >= maxTold {
		t.mu.Unlock()
		return tell()
	}
	said = &telling{at: now, done: make(chan struct{})}
	t.said[q] = said
	t.mu.Unlock()
	defer close(said.done)
	raw := tell()
	if len(raw) <= maxToldBytes {
		said.raw = raw
	}
	return raw
}

// sweep forgets what is old. mu is held.
func (t *told) sweep(now time.Time) {
	if now.Sub(t.swept) < toldFor {
		return
	}
	t.swept = now
	if t.said == nil {
		t.said = map[question]*telling{}
	}
	for q, said := range t.said {
		if now.Sub(said.at) >= toldFor {
			delete(t.said, q)
		}
	}
}
