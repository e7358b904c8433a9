package bench

import (
	"sync"
	"time"
)

// crowd counts the listeners that have received an event. Before the first event, all
// listeners are expected to receive something.
type crowd struct {
	all chan struct{} // closed when all expected listeners have received it

	mu       sync.Mutex
	expected int
	first    int
	late     []time.Duration
}

func newCrowd(n int) *crowd { return &crowd{first: n, all: make(chan struct{})} }

// expect begins an event that this many listeners will receive. No other event may be
// under way.
func (c *crowd) expect(listeners int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.expected, c.late = make(chan struct{}), listeners, nil
}

// hears returns the function that one listener calls with each event.
func (c *crowd) hears() func(progress bool, late time.Duration) {
	first := true
	return func(progress bool, late time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if first {
			if first, c.first = false, c.first-1; c.first == 0 {
				close(c.all)
			}
		}
		if progress {
			if c.late = append(c.late, late); len(c.late) == c.expected {
				close(c.all)
			}
		}
	}
}
