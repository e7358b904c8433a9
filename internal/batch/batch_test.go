package batch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowVerb is a verb whose batches wait until the test lets them go.
type slowVerb struct {
	Group[*int]
	mu      sync.Mutex
	batches [][]int
	let     chan struct{}
}

func newSlowVerb() *slowVerb {
	v := &slowVerb{let: make(chan struct{})}
	v.Most = 2
	return v
}

func (h *slowVerb) run(ctx context.Context, items []*int, _ bool) [][]*int {
	var batch []int
	for _, item := range items {
		batch = append(batch, *item)
	}
	h.mu.Lock()
	h.batches = append(h.batches, batch)
	h.mu.Unlock()
	select {
	case <-h.let:
	case <-ctx.Done():
	}
	return nil
}

// seen are the batches so far.
func (h *slowVerb) seen() [][]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.batches)
}

// call does n beside the test, as if it were that large, when all that is under way
// is slow.
func (h *slowVerb) call(ctx context.Context, n, size int) <-chan error {
	time.Sleep(slowBatch)
	return h.callNow(ctx, n, size)
}

func (h *slowVerb) callNow(ctx context.Context, n, size int) <-chan error {
	done := make(chan error, 1)
	go func() { done <- h.Do(ctx, &n, size, h.run) }()
	synctest.Wait()
	return done
}

func TestGather(t *testing.T) {
	t.Parallel()

	t.Run("RunsAtOnceWhatComesAloneAndTogetherWhatWaits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			var calls []<-chan error
			for n := range 6 {
				calls = append(calls, h.call(t.Context(), n, 1))
			}
			require.Equal(t, [][]int{{0}, {1}}, h.batches, "as many as may lead")

			close(h.let)
			for _, done := range calls {
				require.NoError(t, <-done)
			}

			require.Equal(t, [][]int{{0}, {1}, {2, 3, 4, 5}}, h.batches)
			require.Empty(t, h.begun)
		})
	})

	t.Run("BeginsBesideSlowBatchesOnly", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			var calls []<-chan error
			come := func(numbers ...int) {
				for _, n := range numbers {
					calls = append(calls, h.callNow(t.Context(), n, 1))
				}
			}
			come(0, 1, 2)
			require.Equal(t, [][]int{{0}}, h.seen(), "it may be over in a moment")
			time.Sleep(slowBatch)
			synctest.Wait()
			require.Equal(t, [][]int{{0}, {1, 2}}, h.seen(), "whether or not somebody comes")
			come(3, 4)
			time.Sleep(slowBatch)
			synctest.Wait()
			require.Len(t, h.seen(), 2, "as many as may be under way")

			h.let <- struct{}{}
			synctest.Wait()
			come(5)
			require.Equal(t, [][]int{{0}, {1, 2}, {3, 4}}, h.seen(), "beside the other, which is slow")
			h.let <- struct{}{}
			synctest.Wait()
			require.Len(t, h.seen(), 3, "the other is not")
			close(h.let)
			for _, done := range calls {
				require.NoError(t, <-done)
			}

			require.Equal(t, [][]int{{0}, {1, 2}, {3, 4}, {5}}, h.seen())
			require.Empty(t, h.begun)
		})
	})

	t.Run("WaitsAMomentForAsManyAsUsual", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			var calls []<-chan error
			come := func(numbers ...int) {
				for _, n := range numbers {
					calls = append(calls, h.callNow(t.Context(), n, 1))
				}
			}
			over := func() {
				h.let <- struct{}{}
				synctest.Wait()
			}
			come(0, 1, 2, 3)
			over()
			over()
			require.Equal(t, [][]int{{0}, {1, 2, 3}}, h.seen())

			come(4, 5)
			require.Len(t, h.seen(), 2)
			come(6)
			require.Equal(t, []int{4, 5, 6}, h.seen()[2], "they are as many")
			over()
			come(7)
			time.Sleep(gatherRest - time.Nanosecond)
			synctest.Wait()
			require.Len(t, h.seen(), 3)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Equal(t, []int{7}, h.seen()[3], "no more came")
			come(8)
			over()
			require.Len(t, h.seen(), 4)
			time.Sleep(gatherRest)
			synctest.Wait()
			over()
			time.Sleep(10 * gatherRest)
			come(9)
			require.Len(t, h.seen(), 6, "long after the last")
			over()
			come(10)
			require.Len(t, h.seen(), 7, "one is usual by now")
			close(h.let)
			for _, done := range calls {
				require.NoError(t, <-done)
			}
		})
	})

	t.Run("WaitsForNoCompanyIfItIsEager", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			h.Eager = true
			var calls []<-chan error
			for n := range 4 {
				calls = append(calls, h.callNow(t.Context(), n, 1))
			}
			h.let <- struct{}{}
			synctest.Wait()
			h.let <- struct{}{}
			synctest.Wait()
			require.Equal(t, [][]int{{0}, {1, 2, 3}}, h.seen())

			calls = append(calls, h.callNow(t.Context(), 4, 1))
			require.Equal(t, []int{4}, h.seen()[2])
			close(h.let)
			for _, done := range calls {
				require.NoError(t, <-done)
			}
		})
	})

	t.Run("WaitsAsLongAsTheyComeUntilItsRestIsOver", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			h.Rest = 3 * gatherRest
			var calls []<-chan error
			come := func(numbers ...int) {
				for _, n := range numbers {
					calls = append(calls, h.callNow(t.Context(), n, 1))
				}
			}
			pass := func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait()
			}
			come(0, 1, 2, 3, 4, 5)
			h.let <- struct{}{}
			synctest.Wait()
			h.let <- struct{}{}
			synctest.Wait()
			require.Equal(t, [][]int{{0}, {1, 2, 3, 4, 5}}, h.seen())

			come(6)
			for n := range 3 {
				pass(gatherRest - time.Nanosecond)
				require.Len(t, h.seen(), 2)
				come(7 + n)
			}
			pass(3 * time.Nanosecond)
			require.Equal(t, []int{6, 7, 8, 9}, h.seen()[2], "the rest is over")
			h.let <- struct{}{}
			synctest.Wait()

			come(10)
			pass(gatherRest - time.Nanosecond)
			require.Len(t, h.seen(), 3)
			pass(time.Nanosecond)
			require.Equal(t, []int{10}, h.seen()[3], "nobody comes any more")
			close(h.let)
			for _, done := range calls {
				require.NoError(t, <-done)
			}
		})
	})

	t.Run("KeepsNobodyWaitingWhoComesAgainWhenHeWasAnswered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			close(h.let)
			began := time.Now()
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for n := range 100 {
						require.NoError(t, h.Do(t.Context(), &n, 1, h.run))
					}
				})
			}
			all.Wait()

			require.Less(t, time.Since(began), 40*gatherRest)
		})
	})

	t.Run("BoundsABatch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			var calls []<-chan error
			for n, size := range []int{1, 1, MaxSize / 2, MaxSize / 2, 1, MaxSize + 1, 1} {
				calls = append(calls, h.call(t.Context(), n, size))
			}

			for range h.Most {
				h.let <- struct{}{}
				time.Sleep(slowBatch)
				synctest.Wait()
			}
			require.Equal(t, [][]int{{0}, {1}, {2, 3}, {4}}, h.batches, "in their order")
			close(h.let)
			for _, done := range calls {
				require.NoError(t, <-done)
			}

			require.ElementsMatch(t, [][]int{{5}, {6}}, h.batches[4:], "what is too large runs alone")
		})
	})

	t.Run("LetsGoWhoWaitsNoLonger", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			ctx, cancel := context.WithCancel(t.Context())
			first, second := h.call(t.Context(), 0, 1), h.call(t.Context(), 1, 1)
			left, stays := h.call(ctx, 2, 1), h.call(t.Context(), 3, 1)

			cancel()
			require.ErrorIs(t, <-left, context.Canceled)
			close(h.let)

			for _, done := range []<-chan error{first, second, stays} {
				require.NoError(t, <-done)
			}
			require.NotContains(t, slices.Concat(h.batches...), 2, "it was not begun")
		})
	})

	t.Run("EndsABatchWhenNoneOfItsCallersIsThere", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			one, leaveOne := context.WithCancel(t.Context())
			two, leaveTwo := context.WithCancel(t.Context())
			alone, other := h.call(one, 0, 1), h.call(t.Context(), 1, 1)
			leads, follows, third := h.call(one, 2, 1), h.call(two, 3, 1), h.call(t.Context(), 4, MaxSize)
			h.let <- struct{}{}
			time.Sleep(slowBatch)
			h.let <- struct{}{}
			synctest.Wait()
			require.NoError(t, <-alone)
			require.NoError(t, <-other)
			require.ElementsMatch(t, [][]int{{2, 3}, {4}}, h.batches[2:])

			leaveOne()
			synctest.Wait()
			require.Empty(t, leads, "who runs it for another stays")
			leaveTwo()
			<-follows // it was let go, or told of the end
			<-leads

			close(h.let)
			require.NoError(t, <-third)
			require.Empty(t, h.begun)
		})
	})

	t.Run("RunsWhatABatchLeavesByItself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			var blocked []<-chan error
			for n := range h.Most {
				blocked = append(blocked, h.call(t.Context(), n, 1))
			}
			var groups [][]int
			run := func(_ context.Context, items []*int, alone bool) [][]*int {
				var group []int
				for _, item := range items {
					group = append(group, *item)
				}
				h.mu.Lock()
				groups = append(groups, group)
				h.mu.Unlock()
				require.Equal(t, len(items) < 4, alone)
				if len(items) == 4 {
					return [][]*int{{items[1], items[3]}, {items[2]}}
				}
				return nil
			}
			done := make(chan error, 4)
			for n := range 4 {
				go func() { done <- h.Do(t.Context(), &n, 1, run) }()
				synctest.Wait()
			}

			close(h.let)
			for range 4 {
				require.NoError(t, <-done)
			}

			require.Equal(t, []int{0, 1, 2, 3}, groups[0])
			require.ElementsMatch(t, [][]int{{1, 3}, {2}}, groups[1:])
			for _, one := range blocked {
				require.NoError(t, <-one)
			}
		})
	})

	t.Run("KeepsNobodyWaitingAfterAPanic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowVerb()
			first, second := h.call(t.Context(), 0, 1), h.call(t.Context(), 1, 1)
			panicked, follower := make(chan any, 1), make(chan error, 1)
			broken := func(context.Context, []*int, bool) [][]*int { panic("broken") }
			go func() {
				defer func() { panicked <- recover() }()
				_ = h.Do(t.Context(), new(int), 1, broken)
			}()
			synctest.Wait()
			go func() { follower <- h.Do(t.Context(), new(int), 1, broken) }()
			synctest.Wait()

			close(h.let)

			require.Equal(t, "broken", <-panicked)
			require.ErrorIs(t, <-follower, errGivenUp)
			require.NoError(t, <-first)
			require.NoError(t, <-second)
			require.Empty(t, h.begun)
		})
	})

	t.Run("ServesAllHoweverManyCallAndLeave", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := Group[*int]{Most: 3}
			var calls sync.WaitGroup
			for i := range 64 {
				calls.Go(func() {
					for n := range 200 {
						ctx, cancel := context.WithCancel(t.Context())
						if (i+n)%7 == 0 {
							cancel()
						}
						served := new(int)
						err := g.Do(ctx, served, 1+n%50, func(_ context.Context, items []*int, _ bool) [][]*int {
							for _, item := range items {
								*item = 1
							}
							time.Sleep(time.Duration(len(items)%4) * slowBatch)
							if len(items) > 2 {
								return [][]*int{{items[1]}, {items[2]}}
							}
							return nil
						})
						if err == nil && *served != 1 {
							t.Errorf("call %d of %d was not served", n, i)
						}
						cancel()
					}
				})
			}
			calls.Wait()

			require.Empty(t, g.begun)
			require.Empty(t, g.waiting)
		})
	})
}
