package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// item is a number of some size.
type item struct{ n, size int }

func (i item) Size() int { return i.size }

// gate is a group whose batches block until the test lets them pass.
type gate struct {
	Group[item]
	let chan struct{}

	mu      sync.Mutex
	batches [][]int
}

func newGate() *gate { return &gate{let: make(chan struct{})} }

func (g *gate) run(ctx context.Context, items []item) error {
	var batch []int
	for _, i := range items {
		batch = append(batch, i.n)
	}
	g.mu.Lock()
	g.batches = append(g.batches, batch)
	g.mu.Unlock()
	select {
	case <-g.let:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begun returns the batches that have begun.
func (g *gate) begun() [][]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.batches)
}

// pass lets one batch finish and waits until everything is blocked again.
func (g *gate) pass() {
	g.let <- struct{}{}
	synctest.Wait()
}

// do starts a call in the background and returns when it waits or leads.
func do(ctx context.Context, g *Group[item], i item, run Run[item]) <-chan error {
	done := make(chan error, 1)
	go func() { done <- g.Do(ctx, i, run) }()
	synctest.Wait()
	return done
}

func (g *gate) call(ctx context.Context, n int) <-chan error {
	return do(ctx, &g.Group, item{n, 1}, g.run)
}

func requireServed(t *testing.T, calls ...<-chan error) {
	t.Helper()
	for _, done := range calls {
		require.NoError(t, <-done)
	}
}

func TestGroup(t *testing.T) {
	t.Parallel()

	t.Run("RunsALoneCallAtOnceAndWaitingCallsTogether", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			g.Linger = time.Second
			g.MinSiblings = 4
			var calls []<-chan error
			for n := range 5 {
				calls = append(calls, g.call(t.Context(), n))
			}
			require.Equal(t, [][]int{{0}}, g.begun())

			close(g.let)
			requireServed(t, calls...)

			require.Equal(t, [][]int{{0}, {1, 2, 3, 4}}, g.begun())
			require.False(t, g.running)
		})
	})

	t.Run("LingersIfEnoughCallsWait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			g.Linger, g.MinSiblings = time.Second, 1
			calls := []<-chan error{g.call(t.Context(), 0), g.call(t.Context(), 1), g.call(t.Context(), 2)}
			g.pass()
			require.Equal(t, [][]int{{0}}, g.begun(), "the two waiting calls linger")

			time.Sleep(time.Second - time.Nanosecond)
			calls = append(calls, g.call(t.Context(), 3))
			require.Len(t, g.begun(), 1)
			time.Sleep(time.Nanosecond)
			synctest.Wait()

			require.Equal(t, [][]int{{0}, {1, 2, 3}}, g.begun(), "a later call does not extend the linger")
			close(g.let)
			requireServed(t, calls...)
		})
	})

	t.Run("LingersNoLongerOnceABatchIsFull", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			g.Linger, g.MaxSize = time.Hour, 3
			calls := []<-chan error{g.call(t.Context(), 0), g.call(t.Context(), 1), g.call(t.Context(), 2)}
			g.pass()
			calls = append(calls, g.call(t.Context(), 3))
			require.Equal(t, [][]int{{0}, {1, 2, 3}}, g.begun())
			calls = append(calls, g.call(t.Context(), 4))
			g.pass()

			require.Equal(t, []int{4}, g.begun()[2], "a lone call does not linger")
			close(g.let)
			requireServed(t, calls...)
		})
	})

	t.Run("LingersNoLongerOnceEnoughCallsWait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			g.Linger, g.Enough = time.Hour, 3
			calls := []<-chan error{g.call(t.Context(), 0), g.call(t.Context(), 1), g.call(t.Context(), 2)}
			g.pass()
			require.Equal(t, [][]int{{0}}, g.begun(), "two are not enough")
			calls = append(calls, g.call(t.Context(), 3))

			require.Equal(t, [][]int{{0}, {1, 2, 3}}, g.begun())
			close(g.let)
			requireServed(t, calls...)
		})
	})

	t.Run("BoundsABatchBySize", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			var calls []<-chan error
			for n, size := range []int{1, MaxSize / 2, MaxSize / 2, 1, MaxSize + 1, 1} {
				calls = append(calls, do(t.Context(), &g.Group, item{n, size}, g.run))
			}

			close(g.let)
			requireServed(t, calls...)

			require.Equal(t, [][]int{{0}, {1, 2}, {3}, {4}, {5}}, g.begun(), "in order; the oversized item runs alone")
		})
	})

	t.Run("ReturnsACallWhoseContextEnds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			ctx, cancel := context.WithCancel(t.Context())
			first, leaves, stays := g.call(t.Context(), 0), g.call(ctx, 1), g.call(t.Context(), 2)

			cancel()

			require.ErrorIs(t, <-leaves, context.Canceled)
			close(g.let)
			requireServed(t, first, stays)
			require.Equal(t, [][]int{{0}, {2}}, g.begun())
		})
	})

	t.Run("CancelsABatchWhenAllItsCallsHaveLeft", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			one, leaveOne := context.WithCancel(t.Context())
			two, leaveTwo := context.WithCancel(t.Context())
			first, leads, follows := g.call(t.Context(), 0), g.call(one, 1), g.call(two, 2)
			third := g.call(t.Context(), 3)
			_ = third
			g.pass()
			requireServed(t, first)
			require.Equal(t, []int{1, 2, 3}, g.begun()[1])

			leaveOne()
			leaveTwo()
			synctest.Wait()
			require.ErrorIs(t, <-follows, context.Canceled)
			require.Empty(t, leads, "a leader stays while its batch has another call")

			close(g.let)
			requireServed(t, third, leads)
		})
	})

	t.Run("RunsEachCallAloneIfABatchFails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			poisoned := errors.New("poisoned")
			stuck := make(chan struct{})
			run := func(_ context.Context, items []item) error {
				if slices.Contains(items, item{2, 1}) {
					return poisoned
				}
				if len(items) == 1 && items[0].n == 3 {
					<-stuck // as if it waited for a locked row
				}
				return nil
			}
			release := g.Block()
			var calls []<-chan error
			for n := range 4 {
				calls = append(calls, do(t.Context(), &g.Group, item{n, 1}, run))
			}

			release()

			requireServed(t, calls[0], calls[1])
			require.ErrorIs(t, <-calls[2], poisoned)
			requireServed(t, do(t.Context(), &g.Group, item{4, 1}, run))
			require.Empty(t, calls[3], "a stuck call delays no batch")
			close(stuck)
			requireServed(t, calls[3])
		})
	})

	t.Run("GivesAFinalErrorToAll", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			outage, runs := errors.New("outage"), 0
			run := func(context.Context, []item) error {
				runs++
				return Final(outage)
			}
			release := g.Block()
			one, two := do(t.Context(), &g.Group, item{0, 1}, run), do(t.Context(), &g.Group, item{1, 1}, run)

			release()

			require.ErrorIs(t, <-one, outage)
			require.ErrorIs(t, <-two, outage)
			require.Equal(t, 1, runs)
		})
	})

	t.Run("ReturnsAllCallsAfterAPanic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			broken := func(context.Context, []item) error { panic("broken") }
			release := g.Block()
			panicked := make(chan any, 1)
			go func() {
				defer func() { panicked <- recover() }()
				_ = g.Do(t.Context(), item{0, 1}, broken)
			}()
			synctest.Wait()
			follower := do(t.Context(), &g.Group, item{1, 1}, broken)

			release()

			require.Equal(t, "broken", <-panicked)
			require.ErrorIs(t, <-follower, errPanicked)
			close(g.let)
			requireServed(t, g.call(t.Context(), 2))
		})
	})

	t.Run("ServesAllCallsHoweverManyLeave", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := Group[*int]{Linger: time.Millisecond, MinSiblings: 3, MaxSize: 20}
			var calls sync.WaitGroup
			for i := range 64 {
				calls.Go(func() {
					for n := range 200 {
						ctx, cancel := context.WithCancel(t.Context())
						if (i+n)%7 == 0 {
							cancel()
						}
						served := new(int)
						err := g.Do(ctx, served, func(_ context.Context, items []*int) error {
							time.Sleep(time.Duration(len(items)%4) * time.Millisecond)
							if len(items)%5 == 2 {
								return errors.New("not together")
							}
							for _, one := range items {
								*one = 1
							}
							return nil
						})
						if err == nil && *served != 1 {
							t.Errorf("call %d of %d was not served", n, i)
						}
						if err != nil && ctx.Err() == nil {
							t.Errorf("call %d of %d: %v", n, i, err)
						}
						cancel()
					}
				})
			}
			calls.Wait()

			require.False(t, g.running)
			require.Empty(t, g.waiting)
		})
	})
}

func TestKeyed(t *testing.T) {
	t.Parallel()

	t.Run("RunsOnlyCallsOfOneKeyTogether", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, keyed := newGate(), Keyed[string, item]{}
			var calls []<-chan error
			for n, key := range []string{"a", "b", "a", "b", "a"} {
				done := make(chan error, 1)
				go func() { done <- keyed.Do(t.Context(), key, item{n, 1}, g.run) }()
				synctest.Wait()
				calls = append(calls, done)
			}
			require.Equal(t, [][]int{{0}, {1}}, g.begun(), "no key waits for another")
			require.Equal(t, 5, keyed.Calls())

			close(g.let)
			requireServed(t, calls...)

			require.ElementsMatch(t, [][]int{{2, 4}, {3}}, g.begun()[2:])
			require.Empty(t, keyed.groups)
		})
	})
}
