package main

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// callers lets t.clients goroutines call do repeatedly until t.span has passed. Each call
// counts as per jobs.
func callers(ctx context.Context, t task, per int, do func(ctx context.Context, client int) error) (figures, error) {
	began := time.Now()
	end := began.Add(t.span)
	times := make([][]time.Duration, t.clients)
	group, ctx := errgroup.WithContext(ctx)
	for client := range t.clients {
		group.Go(func() error {
			for at := time.Now(); at.Before(end); {
				if err := do(ctx, client); err != nil {
					return err
				}
				now := time.Now()
				times[client], at = append(times[client], now.Sub(at)), now
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(times...)
	f := percentiles(all)
	f["rate"] = float64(per*len(all)) / time.Since(began).Seconds()
	return f, nil
}

// oneByOne submits t.n jobs, each after a worker has received the previous one, and measures
// the time from the answer to the submit to that receipt, which arrives on taken.
func oneByOne(ctx context.Context, t task, taken <-chan time.Time, submit func(context.Context) error) (figures, error) {
	var times []time.Duration
	for range t.n {
		time.Sleep(t.pause) // the measurement needs an idle queue
		if err := submit(ctx); err != nil {
			return nil, err
		}
		answered := time.Now()
		select {
		case at := <-taken:
			times = append(times, max(0, at.Sub(answered)))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return percentiles(times), nil
}

// percentiles uses the nearest rank.
func percentiles(times []time.Duration) figures {
	slices.Sort(times)
	at := func(p float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[max(0, int(math.Ceil(p*float64(len(times))))-1)].Microseconds()) / 1000
	}
	return figures{"p50": at(0.50), "p99": at(0.99)}
}

// countdown signals when this many jobs are done.
type countdown struct {
	mu   sync.Mutex
	n    int
	last time.Time
	done chan struct{}
	left int
}

func newCountdown(n int) *countdown { return &countdown{left: n, done: make(chan struct{})} }

func (c *countdown) one() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == c.left {
		c.last = time.Now()
		close(c.done)
	}
}

// rate waits until all jobs are done or the span has passed, and returns jobs per second.
func (c *countdown) rate(ctx context.Context, began time.Time, span time.Duration) (figures, error) {
	over := time.NewTimer(span)
	defer over.Stop()
	select {
	case <-c.done:
	case <-over.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() {
		c.last = time.Now()
	}
	return figures{"rate": float64(c.n) / c.last.Sub(began).Seconds()}, nil
}
