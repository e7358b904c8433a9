package recent

import (
	"sync"
	"time"
)

// Map is a cache with a lifetime of one second, for values that are looked up all the
// time.
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
	// recentFor is the lifetime of an entry. A revoked key must be refused within 5 seconds;
	// this time and the interval of a KeyWatch together stay below that.
	recentFor = time.Second
	// maxRecent bounds the memory. Further values are not cached.
	maxRecent = 20_000
)

// Get returns the value of key if it was looked up less than recentFor before now.
func (r *Map[K, V]) Get(key K, now time.Time) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.known[key]
	if !ok || now.Sub(found.at) >= recentFor {
		return value, false
	}
	return found.value, true
}

// Keep stores a value whose lookup began at the time at.
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
