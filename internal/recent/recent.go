package recent

import (
	"sync"
	"time"
)

// Map remembers for a moment what was looked up, so that what is asked for all
// the time is looked up once a second.
type Map[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]lookedUp[V]
	swept time.Time
}

type lookedUp[V any] struct {
	value V
	at    time.Time // before it was looked up
}

const (
	// recentFor and a KeyWatch's look are within the 5 seconds that a key may still
	// open something after it is revoked.
	recentFor = time.Second
	// maxRecent bounds the memory; what is beyond is looked up each time.
	maxRecent = 20_000
)

// Get returns what was looked up less than recentFor before now.
func (r *Map[K, V]) Get(key K, now time.Time) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.known[key]
	if !ok || now.Sub(found.at) >= recentFor {
		return value, false
	}
	return found.value, true
}

// Keep remembers what was looked up after at.
func (r *Map[K, V]) Keep(key K, value V, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Sub(r.swept) > recentFor {
		r.swept = at
		for key, found := range r.known {
			if at.Sub(found.at) >= recentFor {
				delete(r.known, key)
			}
		}
	}
	if r.known == nil {
		r.known = map[K]lookedUp[V]{}
	}
	if len(r.known) < maxRecent {
		r.known[key] = lookedUp[V]{value, at}
	}
}
