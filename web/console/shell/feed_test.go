package shell

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// counted is a list that is different at each read.
func counted(reads *atomic.Int64) readList {
	return func(context.Context, jobs.Principal) (func(time.Time) templ.Component, error) {
		text := fmt.Sprint("read ", reads.Add(1))
		return func(time.Time) templ.Component { return templ.Raw(text) }, nil
	}
}

func TestFeed(t *testing.T) {
	t.Parallel()

	t.Run("ReadsOnceForAllViewersAndStopsWithTheLast", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var lists Feeds[listState]
			var reads, shown atomic.Int64
			ctx, leave := context.WithCancel(t.Context())
			var viewers sync.WaitGroup
			for range 200 {
				viewers.Go(func() {
					_ = lists.Watch(ctx, "jobs", jobs.Principal{}, counted(&reads).publish, func(listState) error { shown.Add(1); return nil })
				})
			}
			time.Sleep(2 * restBetween)
			reads.Store(0)
			shown.Store(0)

			time.Sleep(10 * RefreshEvery)
			synctest.Wait()

			require.EqualValues(t, 10, reads.Load())
			require.EqualValues(t, 200*10, shown.Load())
			leave()
			viewers.Wait()
			require.Empty(t, lists.open)
			time.Sleep(10 * RefreshEvery)
			require.EqualValues(t, 10, reads.Load())
		})
	})

	t.Run("ReadsAgainAtOnceWhenAViewerArrives", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var lists Feeds[listState]
			var reads atomic.Int64
			ctx, leave := context.WithCancel(t.Context())
			var viewers sync.WaitGroup
			viewers.Go(func() {
				_ = lists.Watch(ctx, "jobs", jobs.Principal{}, counted(&reads).publish, func(listState) error { return nil })
			})
			time.Sleep(RefreshEvery / 2)
			arrived := time.Now()
			saw := errors.New("saw it")

			err := lists.Watch(ctx, "jobs", jobs.Principal{}, counted(&reads).publish, func(list listState) error {
				if list.began.Before(arrived) {
					return nil
				}
				require.Equal(t, "read 2", string(list.now))
				return saw
			})

			require.ErrorIs(t, err, saw)
			require.Equal(t, arrived, time.Now(), "it did not wait")
			leave()
			viewers.Wait()
		})
	})

	t.Run("DelaysNobodyForASlowViewer", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var lists Feeds[listState]
			var reads, shown, slow atomic.Int64
			release := make(chan struct{})
			ctx, leave := context.WithCancel(t.Context())
			var viewers sync.WaitGroup
			viewers.Go(func() {
				_ = lists.Watch(ctx, "jobs", jobs.Principal{}, counted(&reads).publish, func(listState) error { slow.Add(1); <-release; return nil })
			})
			synctest.Wait()
			viewers.Go(func() {
				_ = lists.Watch(ctx, "jobs", jobs.Principal{}, counted(&reads).publish, func(listState) error { shown.Add(1); return nil })
			})
			time.Sleep(2 * restBetween)
			shown.Store(0)

			time.Sleep(10 * RefreshEvery)
			synctest.Wait()

			require.EqualValues(t, 10, shown.Load())
			require.EqualValues(t, 1, slow.Load())
			close(release)
			synctest.Wait()
			require.EqualValues(t, 2, slow.Load(), "it skips to the newest state")
			leave()
			viewers.Wait()
		})
	})

	t.Run("RefusesOnlyTheViewerThatCannotPay", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var lists Feeds[listState]
			read := readList(func(_ context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
				if p.KeyID == "poor" {
					return nil, apierror.Later(apierror.CodeRateLimited, time.Second, "You have read too much.")
				}
				return func(time.Time) templ.Component { return templ.Raw("a list") }, nil
			})
			ctx, leave := context.WithCancel(t.Context())
			var viewers sync.WaitGroup
			var refusal error
			viewers.Go(func() {
				refusal = lists.Watch(ctx, "jobs", jobs.Principal{KeyID: "poor"}, read.publish, func(listState) error { return nil })
			})
			synctest.Wait()
			var shown atomic.Int64
			viewers.Go(func() {
				_ = lists.Watch(ctx, "jobs", jobs.Principal{KeyID: "rich"}, read.publish, func(listState) error { shown.Add(1); return nil })
			})

			time.Sleep(RefreshEvery)
			synctest.Wait()

			require.ErrorIs(t, refusal, apierror.New(apierror.CodeRateLimited, ""))
			require.NotZero(t, shown.Load())
			leave()
			viewers.Wait()
		})
	})

	t.Run("ChargesViewersInTurnAndReadsSeldomForThoseWhoReconnect", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var lists Feeds[listState]
			paid := map[models.KeyID]int{}
			read := readList(func(_ context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
				paid[p.KeyID]++
				return func(time.Time) templ.Component { return templ.Raw("a list") }, nil
			})
			watch := func(ctx context.Context, key models.KeyID) {
				_ = lists.Watch(ctx, "jobs", jobs.Principal{KeyID: key}, read.publish, func(listState) error { return nil })
			}
			ctx, leave := context.WithCancel(t.Context())
			var viewers sync.WaitGroup
			viewers.Go(func() { watch(ctx, "first") })
			viewers.Go(func() { watch(ctx, "second") })
			time.Sleep(10 * RefreshEvery)

			for range 1000 { // in one second
				once, end := context.WithTimeout(ctx, time.Millisecond)
				watch(once, "reconnecting")
				end()
			}

			leave()
			viewers.Wait()
			require.InDelta(t, paid["first"], paid["second"], 3, "timers that end at once end in any order")
			require.LessOrEqual(t, paid["first"]+paid["second"]+paid["reconnecting"], 17, "2 at first, 10 later, and 4 in the last second")
		})
	})

	t.Run("OutlivesAPanicOfItsSource", func(t *testing.T) {
		t.Parallel()
		var pages Feeds[int]

		err := pages.Watch(t.Context(), "job", jobs.Principal{}, func(context.Context, *Feed[int]) error {
			panic("a mistake")
		}, func(int) error { return nil })

		require.ErrorContains(t, err, "a mistake")
		require.Empty(t, pages.open)
	})

	t.Run("EndsForAllViewersIfTheSourceFails", func(t *testing.T) {
		t.Parallel()
		var pages Feeds[int]
		failure := errors.New("no")

		err := pages.Watch(t.Context(), "job", jobs.Principal{}, func(_ context.Context, f *Feed[int]) error {
			f.Publish(1)
			return failure
		}, func(int) error { return nil })

		require.ErrorIs(t, err, failure)
		require.Empty(t, pages.open)
	})
}
