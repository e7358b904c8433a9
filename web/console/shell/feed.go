package shell

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/reelay/reelay/jobs"
)

// Feeds lets the viewers of a page share its reads: for each page and its arguments
// there is one feed in this process.
type Feeds[T any] struct {
	mu   sync.Mutex // guards the feeds, too
	open map[string]*Feed[T]
}

// Feed publishes the states of one page. Its source runs in one goroutine, from the
// arrival of the first viewer until the last one has left.
type Feed[T any] struct {
	all *Feeds[T]
	key string
	// arrived holds a value after another viewer arrived.
	arrived chan struct{}
	stop    context.CancelFunc
	done    chan struct{}

	viewers []*viewer // in the order in which they pay
	state   T
	version int           // how many states were published
	changed chan struct{} // closed at the next change
	ended   bool
	err     error
}

// viewer is one open page.
type viewer struct {
	caller  jobs.Principal
	refusal error
}

// Source publishes states until ctx ends. What it returns is returned to all viewers.
type Source[T any] func(ctx context.Context, f *Feed[T]) error

// protected turns a panic into an error: in this goroutine no server recovers from one.
func (run Source[T]) protected(ctx context.Context, f *Feed[T]) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("panic: %v\n%s", broken, debug.Stack())
		}
	}()
	return run(ctx, f)
}

// Watch calls show with the newest state, and then with each newer one, until ctx or
// the source ends or show fails. A viewer whose show is slow skips states. All viewers
// of a key must be allowed to see the same: the first one's source runs.
func (a *Feeds[T]) Watch(ctx context.Context, key string, p jobs.Principal, run Source[T], show func(T) error) error {
	v := &viewer{caller: p}
	f := a.enter(key, v, run)
	defer f.leave(v)
	for seen := 0; ; {
		a.mu.Lock()
		state, version, changed, ended, err := f.state, f.version, f.changed, f.ended, f.err
		if v.refusal != nil {
			ended, err = true, v.refusal
		}
		a.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case version != seen:
			seen = version
			if err := show(state); err != nil {
				return err
			}
		case ended:
			return err
		default:
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// enter adds a viewer to the feed of a key, and starts the feed if there is none.
func (a *Feeds[T]) enter(key string, v *viewer, run Source[T]) *Feed[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.open[key]
	if f != nil {
		f.viewers = append(f.viewers, v)
		select {
		case f.arrived <- struct{}{}:
		default: // the source has not noticed the last arrival yet
		}
		return f
	}
	f = &Feed[T]{
		all: a, key: key, viewers: []*viewer{v},
		arrived: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
	}
	if a.open == nil {
		a.open = map[string]*Feed[T]{}
	}
	a.open[key] = f
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background()) // the last viewer ends it
	go func() {
		defer close(f.done)
		f.end(run.protected(ctx, f))
	}()
	return f
}

// leave removes a viewer. The last one ends the feed and waits for that.
func (f *Feed[T]) leave(v *viewer) {
	f.all.mu.Lock()
	f.viewers = slices.DeleteFunc(f.viewers, func(other *viewer) bool { return other == v })
	last := len(f.viewers) == 0
	if last {
		f.close()
	}
	f.all.mu.Unlock()
	if last {
		f.stop()
		<-f.done
	}
}

// end tells the viewers that the source has ended. Later viewers start another one.
func (f *Feed[T]) end(err error) {
	f.change(func() {
		f.ended, f.err = true, err
		f.close()
	})
}

// close makes later viewers start another feed. The mutex must be held.
func (f *Feed[T]) close() {
	if f.all.open[f.key] == f {
		delete(f.all.open, f.key)
	}
}

// Publish makes a state the newest. It must not be modified afterwards.
func (f *Feed[T]) Publish(state T) {
	f.change(func() {
		f.state = state
		f.version++
	})
}

// payer returns the viewer to whom the next read is charged. Those that were not refused
// take turns. It returns nil if there is none.
func (f *Feed[T]) payer() *viewer {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	i := slices.IndexFunc(f.viewers, func(v *viewer) bool { return v.refusal == nil })
	if i < 0 {
		return nil
	}
	v := f.viewers[i]
	f.viewers = append(slices.Delete(f.viewers, i, i+1), v)
	return v
}

// refuse ends the page of one viewer.
func (f *Feed[T]) refuse(v *viewer, err error) {
	f.change(func() { v.refusal = err })
}

// change makes a change and wakes all viewers.
func (f *Feed[T]) change(act func()) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	act()
	close(f.changed)
	f.changed = make(chan struct{})
}
