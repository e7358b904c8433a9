package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxSize bounds a batch: a longer transaction holds its locks longer, and
// gains little.
const MaxSize = 200

// errGivenUp is of a call whose batch ended in a panic.
var errGivenUp = errors.New("the batch that this call was a part of was given up")

// Group joins concurrent calls into batches, each run by one of its callers, so
// that one transaction serves many. Who finds nobody at work runs at once, unless
// others came together a moment ago: see rested. Who finds others waits, and whoever is
// done hands all that waits by then to the first of those. There is nothing to start or
// to stop.
type Group[T comparable] struct {
	// Most is how many batches may be under way at once; 0 is one. Another begins
	// only beside slow ones: one large batch costs less than two small ones. It has a
	// use only if they do not wait for each other's rows.
	Most int
	// Rest is how long after the begin of one batch the next waits for as many calls
	// as usual, while calls come; 0 is gatherRest.
	Rest time.Duration
	// Eager batches wait for no company: of callers who go from one verb to another and
	// back, those that one of the two makes wait are those that the other waits for.
	Eager bool

	mu      sync.Mutex
	waiting []*caller[T]
	begun   []time.Time // when the batches under way that others wait behind were
	watched bool        // a look is due once what is under way is slow
	last    time.Time   // when the newest batch began
	came    time.Time   // when the newest call came
	usual   float64     // how many calls batches had lately, at most
	rests   bool        // a look is due once the rest is over
}

// slowBatch is how long a batch may take before others are let past it: many times
// what it usually does.
const slowBatch = 50 * time.Millisecond

// caller is one call in a gather.
type caller[T comparable] struct {
	ctx  context.Context
	own  T
	size int
	// cue says what is next for it; it holds one at a time.
	cue  chan cue[T]
	gone bool
}

// cue tells a caller that it was served, or to run a batch that it is in.
type cue[T comparable] struct {
	batch []*caller[T]
	// begun is when a batch that others wait behind was.
	begun time.Time
	err   error
}

// queued tells whether others wait behind the batch.
func (c cue[T]) queued() bool { return !c.begun.IsZero() }

// Do runs own in a batch with others, no larger than gatherSize by their sizes
// unless it is alone in it. run notes in each what became of it, and returns
// what it left: groups that shall be run each by itself and beside the others,
// since they would keep those waiting or spoil their batch. Behind a group nobody
// waits: run is told that it is alone.
//
// When ctx ends, so does the call; own may be carried out nevertheless. Only who
// runs a batch for others too stays until it is over. The batch's ctx ends when
// none of its callers is there any more.
func (g *Group[T]) Do(ctx context.Context, own T, size int, run func(ctx context.Context, batch []T, alone bool) (left [][]T)) error {
	return g.DoThen(ctx, own, size, func(ctx context.Context, batch []T, alone bool) ([][]T, func()) {
		return run(ctx, batch, alone), nil
	})
}

// DoThen is do, and run may also return what is left to do once the calls have
// their answers and the next batch is on its way.
func (g *Group[T]) DoThen(ctx context.Context, own T, size int, run func(ctx context.Context, batch []T, alone bool) (left [][]T, after func())) error {
	me := &caller[T]{ctx: ctx, own: own, size: size, cue: make(chan cue[T], 1)}
	g.join(me)
	for {
		select {
		case next := <-me.cue:
			if next.batch == nil {
				return next.err
			}
			g.lead(next, run)
		case <-ctx.Done():
			return g.leave(me)
		}
	}
}

func (g *Group[T]) join(me *caller[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting, g.came = append(g.waiting, me), time.Now()
	g.next()
}

// next has the first of those who wait run a batch of them, if one may begin.
func (g *Group[T]) next() {
	defer g.watch()
	now := time.Now()
	if under := len(g.begun); under > 0 && (under >= g.Most || now.Sub(g.begun[under-1]) < slowBatch) {
		return
	}
	n, size := 0, 0
	for n < len(g.waiting) && (n == 0 || size+g.waiting[n].size <= MaxSize) {
		size += g.waiting[n].size
		n++
	}
	if n == 0 || !g.rested(n, size, now) {
		return
	}
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.begun = append(g.begun, now)
	g.hand(cue[T]{batch: batch, begun: now})
}

// gatherRest is how long a batch waits for the next call, if fewer wait than usual and
// the batch before it began a moment ago. Of a transaction of few calls most is its own
// cost: where calls come to a busy process all the time, each by itself, it would be kept
// busier by that.
const gatherRest = 20 * time.Millisecond

const (
	// gatherCompany is how many calls never wait for more.
	gatherCompany = 64
	// gatherForgets is how much of what is usual is forgotten with each batch.
	gatherForgets = 0.1
)

// rested tells whether a batch of n may begin now; if not, it has it looked for again.
// Calls that come one after the other, each once the one before is answered, do not wait
// for more than come that way, be it one or ten. After a burst, who comes alone may wait
// for company for a second in all.
func (g *Group[T]) rested(n, size int, now time.Time) bool {
	rest := max(g.Rest, gatherRest)
	since, quiet := now.Sub(g.last), now.Sub(g.came)
	switch {
	case g.Eager:
		return true
	case since >= 10*rest:
		g.usual = 0
	case since < rest && quiet < gatherRest && n == len(g.waiting) && size < MaxSize && n < int(g.usual+0.5):
		g.look(&g.rests, min(rest-since, gatherRest-quiet))
		return false
	}
	g.usual, g.last = min(max(float64(n), g.usual*(1-gatherForgets)), gatherCompany), now
	return true
}

// watch has those who still wait looked for again, once what is under way is slow.
func (g *Group[T]) watch() {
	if len(g.waiting) > 0 && len(g.begun) > 0 && len(g.begun) < g.Most {
		g.look(&g.watched, slowBatch)
	}
}

// look has the next batch looked for after a time, unless it will be.
func (g *Group[T]) look(due *bool, after time.Duration) {
	if *due {
		return
	}
	*due = true
	time.AfterFunc(after, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		*due = false
		g.next()
	})
}

// over ends a batch that others wait behind, and has the next one run.
func (g *Group[T]) over(of cue[T]) {
	i := slices.Index(g.begun, of.begun)
	g.begun = slices.Delete(g.begun, i, i+1)
	g.next()
}

// hand gives a batch to the first of its callers who is still there.
func (g *Group[T]) hand(next cue[T]) {
	if i := slices.IndexFunc(next.batch, func(c *caller[T]) bool { return !c.gone }); i >= 0 {
		next.batch[i].cue <- next
	} else if next.queued() {
		g.over(next)
	}
}

// leave ends a call that does not wait any longer. What it was to run is
// another's to run.
func (g *Group[T]) leave(me *caller[T]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	me.gone = true
	g.waiting = slices.DeleteFunc(g.waiting, func(c *caller[T]) bool { return c == me })
	select {
	case next := <-me.cue:
		if next.batch == nil {
			return next.err // it was served just now
		}
		g.hand(next)
	default:
	}
	return me.ctx.Err()
}

// lead runs a batch, and tells its callers.
func (g *Group[T]) lead(own cue[T], run func(ctx context.Context, batch []T, alone bool) (left [][]T, after func())) {
	ctx, end := whileAny(own.batch)
	defer end()
	callers, items := make(map[T]*caller[T], len(own.batch)), make([]T, len(own.batch))
	for i, c := range own.batch {
		callers[c.own], items[i] = c, c.own
	}
	err := errGivenUp
	var left [][]T
	var after func()
	defer func() { // of a panic, too: nobody shall wait for ever
		g.told(own, callers, left, err)
		if after != nil {
			after()
		}
	}()
	left, after = run(ctx, items, !own.queued())
	err = nil
}

// told hands on what a batch left, answers its callers, and has the next one run.
func (g *Group[T]) told(own cue[T], callers map[T]*caller[T], left [][]T, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, items := range left {
		group := cue[T]{}
		for _, item := range items {
			group.batch = append(group.batch, callers[item])
			delete(callers, item)
		}
		g.hand(group)
	}
	for _, c := range callers {
		if !c.gone {
			c.cue <- cue[T]{err: err}
		}
	}
	if own.queued() {
		g.over(own)
	}
}

// whileAny is a context that ends when those of all callers did, or by the
// function that comes with it.
func whileAny[T comparable](batch []*caller[T]) (context.Context, context.CancelFunc) {
	if len(batch) == 1 {
		return batch[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(batch[0].ctx))
	var left atomic.Int32
	left.Store(int32(len(batch)))
	stops := make([]func() bool, len(batch))
	for i, c := range batch {
		stops[i] = context.AfterFunc(c.ctx, func() {
			if left.Add(-1) == 0 {
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

// Waiting returns how many callers wait for a batch to begin.
func (g *Group[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// Calls returns how many callers wait for a batch to begin, plus the batches in
// progress.
func (g *Group[T]) Calls() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.begun) + len(g.waiting)
}

// Hold makes callers wait as if a batch were in progress, until release is called.
// Tests need it, to have several callers in one batch.
func (g *Group[T]) Hold() (release func()) {
	other := cue[T]{begun: time.Now()}
	g.mu.Lock()
	g.begun = append(g.begun, other.begun)
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.over(other)
	}
}
