package watch

import (
	"slices"
	"sync"
)

// ring holds the newest items of a stream that many subscribers follow, each at its own
// pace. Items have ascending numbers. A subscriber that is further behind than the ring
// reaches must read the missing items elsewhere: a slow one does not make the ring grow.
type ring[T any] struct {
	most   int // items held
	number func(T) int

	mu    sync.Mutex
	items []T
	floor int   // the number before the first item
	head  int   // the number of the newest item that was ever added
	aged  int   // how many of the items were there at the last call of age
	over  bool  // no item comes after head
	err   error // why the stream failed, if it did

	// waiting are the functions to call, once, at the next change. The keys are the
	// subscribers.
	waiting map[any]func()
}

func newRing[T any](most int, number func(T) int) *ring[T] {
	return &ring[T]{most: most, number: number}
}

// unread is what a ring has for a subscriber that has read everything up to a number.
type unread[T any] struct {
	items  []T
	behind bool // the next item is no longer, or not yet, in the ring
	floor  int  // items up to here must be read elsewhere
	over   bool
	err    error
}

// isNothing reports whether the subscriber must wait.
func (h unread[T]) isNothing() bool { return len(h.items) == 0 && !h.behind && !h.over && h.err == nil }

// after returns what the ring has after a number.
func (r *ring[T]) after(at int) unread[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.afterLocked(at)
}

func (r *ring[T]) afterLocked(at int) unread[T] {
	h := unread[T]{floor: r.floor, err: r.err}
	if h.behind = at < r.floor; !h.behind {
		from, _ := slices.BinarySearchFunc(r.items, at+1, func(item T, n int) int { return r.number(item) - n })
		h.items = r.items[from:]
		h.over = r.over && at >= r.head
	}
	return h
}

// wake calls f once there may be something after a number: immediately if there is. f
// must not block. A later call for the same subscriber replaces an earlier one.
func (r *ring[T]) wake(who any, at int, f func()) {
	r.mu.Lock()
	waits := r.afterLocked(at).isNothing()
	if waits {
		if r.waiting == nil {
			r.waiting = map[any]func(){}
		}
		r.waiting[who] = f
	}
	r.mu.Unlock()
	if !waits {
		f()
	}
}

// forget undoes wake for a subscriber.
func (r *ring[T]) forget(who any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, who)
}

// newest returns the number of the newest item.
func (r *ring[T]) newest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

// begin sets the number after which the stream begins in this ring.
func (r *ring[T]) begin(at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floor, r.head = at, at
}

// add appends items, whose numbers come after head.
func (r *ring[T]) add(items ...T) {
	if len(items) == 0 {
		return
	}
	r.change(func() {
		r.items = append(r.items, items...)
		r.head, r.over = r.number(items[len(items)-1]), false
		r.drop(len(r.items) - r.most)
	})
}

// age drops the items that were there at its last call. Subscribers that keep up have
// read them.
func (r *ring[T]) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.aged)
	r.aged = len(r.items)
}

// drop removes the first n items. It copies the others, because subscribers may still
// read the old array.
func (r *ring[T]) drop(n int) {
	if n <= 0 {
		return
	}
	r.floor = r.number(r.items[n-1])
	r.aged = max(0, r.aged-n)
	r.items = slices.Clone(r.items[n:])
}

// end records whether the stream is over at its head, and the number of the head.
func (r *ring[T]) end(head int, over bool) {
	r.mu.Lock()
	same := over == r.over && head <= r.head
	r.mu.Unlock()
	if !same { // only one goroutine writes to the ring
		r.change(func() { r.over, r.head = over, max(head, r.head) })
	}
}

// fail ends the stream with an error.
func (r *ring[T]) fail(err error) {
	r.change(func() { r.err = err })
}

// change changes the ring and wakes the subscribers that wait.
func (r *ring[T]) change(do func()) {
	r.mu.Lock()
	do()
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	for _, wake := range waiting {
		wake()
	}
}
