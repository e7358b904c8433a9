// Package batch implements group commit: concurrent calls run as one batch, so that one
// transaction serves many of them.
package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// MaxSize is the default limit of a batch. A larger batch gains little, and its
// transaction holds locks longer.
const MaxSize = 200

// errPanicked is what the followers of a leader that panicked get.
var errPanicked = errors.New("the batch of this call ended in a panic")

// Sized is an item that counts as more than one in the size of its batch.
type Sized interface{ Size() int }

// Final marks an error that every call of the batch would also get if it ran alone. All
// calls of the batch return it, and none runs again.
func Final(err error) error { return &finalError{err} }

type finalError struct{ error }

func (f *finalError) Unwrap() error { return f.error }

// Run executes the items of a batch and stores in each item its result. If it returns an
// error, no item was executed.
type Run[T any] func(ctx context.Context, items []T) error

// Group joins concurrent calls into batches and runs one batch at a time. The first call
// of a batch is its leader and runs it, while the others, its followers, wait. Calls that
// arrive meanwhile form the next batch. The zero value is ready to use, and a Group needs
// no start or stop.
type Group[T any] struct {
	// MaxSize bounds a batch; 0 means the constant MaxSize. A larger item gets its own
	// batch.
	MaxSize int
	// Linger is how long a batch waits for more calls before it runs. It lingers only if
	// at least MinSiblings other calls wait besides its first, so a lone call never does.
	// Once Enough calls wait, the batch runs at once; 0 means that it must be full.
	Linger              time.Duration
	MinSiblings, Enough int

	mu      sync.Mutex
	calls   int
	waiting []*call[T]
	running bool
	timer   *time.Timer // of the batch that lingers
}

// call is one call of Do.
type call[T any] struct {
	ctx  context.Context
	item T
	// next holds at most one step.
	next chan step[T]
	gone bool
}

// step is what a call does next: lead its batch, run alone, or return err.
type step[T any] struct {
	batch []*call[T]
	alone bool
	err   error
}

// Do runs item in a batch. If a batch of several calls fails, each call runs again alone,
// outside the group: no call fails because of another, and a slow call delays no batch.
//
// When ctx ends, Do returns its error, although the item may still be executed. A leader
// returns only after its batch. The batch's context ends when the contexts of all its
// calls have ended.
func (g *Group[T]) Do(ctx context.Context, item T, run Run[T]) error {
	me := &call[T]{ctx: ctx, item: item, next: make(chan step[T], 1)}
	g.join(me)
	defer g.part()
	var next step[T]
	select {
	case next = <-me.next:
	case <-ctx.Done():
		return g.leave(me)
	}
	if next.batch != nil {
		next = g.lead(next.batch, run)
	}
	if next.alone {
		next.err = run(ctx, []T{item})
	}
	return next.err
}

func (g *Group[T]) join(me *call[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	g.waiting = append(g.waiting, me)
	g.advance()
}

func (g *Group[T]) part() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
}

// advance begins the next batch or lets it linger.
func (g *Group[T]) advance() {
	if g.running || len(g.waiting) == 0 {
		return
	}
	n, full := g.fill()
	enough := full || g.Enough > 0 && len(g.waiting) >= g.Enough
	lingers := g.Linger > 0 && len(g.waiting) > max(g.MinSiblings, 1)
	switch {
	case enough, g.timer == nil && !lingers:
		g.begin(n)
	case g.timer == nil:
		g.timer = time.AfterFunc(g.Linger, g.lingered)
	}
}

// lingered begins the batch that lingered.
func (g *Group[T]) lingered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer = nil; !g.running && len(g.waiting) > 0 {
		n, _ := g.fill()
		g.begin(n)
	}
}

// fill returns how many of the waiting calls fit into one batch, and whether it is full.
func (g *Group[T]) fill() (n int, full bool) {
	most, size := g.MaxSize, 0
	if most == 0 {
		most = MaxSize
	}
	for ; n < len(g.waiting); n++ {
		size += sizeOf(g.waiting[n].item)
		if n > 0 && size > most {
			return n, true
		}
	}
	return n, size >= most
}

func sizeOf(item any) int {
	if sized, is := item.(Sized); is {
		return sized.Size()
	}
	return 1
}

// begin makes a batch of the first n waiting calls and hands it to its leader.
func (g *Group[T]) begin(n int) {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.running = true
	g.appointLeader(batch)
}

// appointLeader makes the first call that has not left the batch its leader.
func (g *Group[T]) appointLeader(batch []*call[T]) {
	for _, c := range batch {
		if !c.gone {
			c.next <- step[T]{batch: batch}
			return
		}
	}
	g.running = false
	g.advance()
}

// leave ends a call whose context has ended. If the call was to lead a batch, another
// call leads it.
func (g *Group[T]) leave(me *call[T]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	me.gone = true
	g.waiting = slices.DeleteFunc(g.waiting, func(c *call[T]) bool { return c == me })
	select {
	case next := <-me.next:
		switch {
		case next.batch != nil:
			g.appointLeader(next.batch)
		case !next.alone:
			return next.err // the batch has just finished
		}
	default:
	}
	return me.ctx.Err()
}

// lead runs a batch, wakes its followers, and returns the leader's next step.
func (g *Group[T]) lead(batch []*call[T], run Run[T]) step[T] {
	ctx, end := whileAny(batch)
	defer end()
	items := make([]T, len(batch))
	for i, c := range batch {
		items[i] = c.item
	}
	next := step[T]{err: errPanicked}
	defer func() { g.finish(batch, next) }() // also after a panic
	err := run(ctx, items)
	var final *finalError
	next = step[T]{err: err, alone: err != nil && len(batch) > 1 && !errors.As(err, &final)}
	return next
}

// finish sends the followers of a batch their next step and begins the next batch.
func (g *Group[T]) finish(batch []*call[T], next step[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range batch {
		if !c.gone {
			c.next <- next // the leader ignores it: lead returns its step
		}
	}
	g.running = false
	g.advance()
}

// whileAny returns a context that ends when the contexts of all calls have ended.
func whileAny[T any](batch []*call[T]) (context.Context, context.CancelFunc) {
	if len(batch) == 1 {
		return batch[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(batch[0].ctx))
	var all sync.Mutex
	left := len(batch)
	stops := make([]func() bool, len(batch))
	for i, c := range batch {
		stops[i] = context.AfterFunc(c.ctx, func() {
			all.Lock()
			defer all.Unlock()
			if left--; left == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// Calls returns how many calls are waiting or running.
func (g *Group[T]) Calls() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// Block makes calls wait as if a batch were running, until release is called. Tests use
// it to have several calls in one batch.
func (g *Group[T]) Block() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running = false
		g.advance()
	}
}
