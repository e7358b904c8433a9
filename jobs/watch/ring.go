package watch

import (
	"maps"
	"runtime"
	"slices"
	"sync"
)

// ring holds the newest items of a stream that many follow, each at his own
// pace. Items are numbered, upwards. Who is further behind than the ring reaches
// has to read elsewhere: nobody makes it grow.
type ring[T any] struct {
	most   int // items held
	number func(T) int

	mu    sync.Mutex
	items []T
	floor int   // the number before the first item
	head  int   // the number of the newest item there ever was
	aged  int   // how many of the items were there when age was last called
	over  bool  // nothing comes after head
	err   error // why nothing comes any more, if it failed

	// waiting are whom to call, once, when something of the above changes.
	waiting map[any]func()
}

func newRing[T any](most int, number func(T) int) *ring[T] {
	return &ring[T]{most: most, number: number}
}

// heard is what a ring says to one who has everything up to a number.
type heard[T any] struct {
	items  []T
	behind bool // what comes next is no longer, or not yet, in the ring
	floor  int  // up to here it has to be read elsewhere
	over   bool
	err    error
}

// isNothing tells whether there is nothing to say yet.
func (h heard[T]) isNothing() bool { return len(h.items) == 0 && !h.behind && !h.over && h.err == nil }

// after returns what comes after a number.
func (r *ring[T]) after(at int) heard[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.afterLocked(at)
}

func (r *ring[T]) afterLocked(at int) heard[T] {
	h := heard[T]{floor: r.floor, err: r.err}
	if h.behind = at < r.floor; !h.behind {
		from, _ := slices.BinarySearchFunc(r.items, at+1, func(item T, n int) int { return r.number(item) - n })
		h.items = r.items[from:]
		h.over = r.over && at >= r.head
	}
	return h
}

// wake has f called once there may be something after a number: at once if there
// is. It is called on a goroutine of its own. Who waits already under the same name
// waits for this instead.
func (r *ring[T]) wake(who any, at int, f func()) {
	r.mu.Lock()
	if r.afterLocked(at).isNothing() {
		if r.waiting == nil {
			r.waiting = map[any]func(){}
		}
		r.waiting[who] = f
		f = nil
	}
	r.mu.Unlock()
	if f != nil {
		go f()
	}
}

// forget has nobody called who waits under that name.
func (r *ring[T]) forget(who any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, who)
}

// newest is the number of the newest item.
func (r *ring[T]) newest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}

// begin sets where a stream begins here.
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

// age drops the items that were there when it was last called: those who keep
// up have them.
func (r *ring[T]) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(r.aged)
	r.aged = len(r.items)
}

// drop forgets the first n items. Others may still read them.
func (r *ring[T]) drop(n int) {
	if n <= 0 {
		return
	}
	r.floor = r.number(r.items[n-1])
	r.aged = max(0, r.aged-n)
	r.items = slices.Clone(r.items[n:])
}

// end notes whether the stream is over at its head, and how far that is.
func (r *ring[T]) end(head int, over bool) {
	r.mu.Lock()
	same := over == r.over && head <= r.head
	r.mu.Unlock()
	if !same { // only the ring's writer changes them
		r.change(func() { r.over, r.head = over, max(head, r.head) })
	}
}

// fail ends the stream for all who follow it.
func (r *ring[T]) fail(err error) {
	r.change(func() { r.err = err })
}

// change does something to the ring and calls those who wait.
func (r *ring[T]) change(do func()) {
	r.mu.Lock()
	do()
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	call := slices.Collect(maps.Values(waiting))
	for some := range slices.Chunk(call, 1+(len(call)-1)/runtime.GOMAXPROCS(0)) {
		go callEach(some)
	}
}

// callEach calls each of them on a goroutine of its own, that the one before begins: none
// waits for another, and thousands are not begun before the first is done.
func callEach(call []func()) {
	if len(call) > 1 {
		go callEach(call[1:])
	}
	call[0]()
}
