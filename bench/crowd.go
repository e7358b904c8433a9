package bench

import (
	"sync"
	"time"
)

// crowd counts who has heard of an event. Before the first one everybody is
// expected to hear something.
type crowd struct {
	all chan struct{} // closed when all who were expected have heard

	mu       sync.Mutex
	expected int
	first    int
	late     []time.Duration
}

func newCrowd(n int) *crowd { return &crowd{first: n, all: make(chan struct{})} }

// expect begins an event that so many will hear of. Nobody is on the way.
func (c *crowd) expect(listeners int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.expected, c.late = make(chan struct{}), listeners, nil
}

// hears returns what one listener calls with each event.
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
