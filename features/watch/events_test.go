package watch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

// listener records the seqs that it receives.
type listener struct {
	seqs chan int
	done chan error
}

func listen(t *testing.T, w *watch.Watcher, p jobs.Principal, id models.JobID, after int64) *listener {
	t.Helper()
	l := &listener{seqs: make(chan int, 10_000), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(l.seqs)
		l.done <- jobstest.EachEvent(ctx, w, p, id, after, func(e *models.JobEvent) error {
			l.seqs <- e.Seq
			return nil
		})
	}()
	t.Cleanup(cancel)
	return l
}

// next receives exactly the events of the seqs from one to another.
func (l *listener) next(t *testing.T, from, to int) {
	t.Helper()
	for want := from; want <= to; want++ {
		got, open := <-l.seqs
		require.True(t, open, "the stream ended before seq %d", want)
		require.Equal(t, want, got)
	}
}

func (l *listener) ended(t *testing.T) {
	t.Helper()
	seq, more := <-l.seqs
	require.False(t, more, "nobody expects seq %d", seq)
	require.NoError(t, <-l.done)
}

// quiet has notifications that never arrive.
type quiet struct{}

func (quiet) Publish(context.Context, ...string) {}

func (quiet) Subscribe(context.Context, string, func()) func() { return func() {} }

func TestEvents(t *testing.T) {
	t.Parallel()

	t.Run("StartWithPastEventsThenFollowLiveOnes", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		worker := s.Worker(t, "w")

		fromStart := listen(t, s.Watcher, s.Client, job.ID, 0)
		fromStart.next(t, 1, 1)
		_, fence := s.Lease(t, worker)
		fromStart.next(t, 2, 2)
		resumed := listen(t, s.Watcher, s.Client, job.ID, 1)
		resumed.next(t, 2, 2)
		_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailInvalidInput, Message: "no"})
		require.NoError(t, err)

		last := s.Reload(t, job.ID).EventSeq
		for _, l := range []*listener{fromStart, resumed} {
			l.next(t, 3, last)
			l.ended(t)
		}
	})

	t.Run("ContinueAfterTheEndOfAnEarlierRun", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		ended := s.Reload(t, job.ID).EventSeq
		_, err = s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)

		l := listen(t, s.Watcher, s.Client, job.ID, 0)
		l.next(t, 1, ended+1)
		_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		l.next(t, ended+2, s.Reload(t, job.ID).EventSeq)
		l.ended(t)
	})

	t.Run("ArriveWithoutNews", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		w := &watch.Watcher{DB: s.DB, Jobs: s.Reads.Jobs, Notifications: quiet{}}

		l := listen(t, w, s.Client, job.ID, 0)
		l.next(t, 1, 1)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		l.next(t, 2, s.Reload(t, job.ID).EventSeq)
		l.ended(t)
	})

	t.Run("HaveNoGapsForManyFollowersDuringWrites", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		const events, followers = 700, 40
		others := &watch.Watcher{DB: s.DB, Jobs: s.Reads.Jobs, Notifications: s.Notifier.Notifications} // another process

		var listeners []*listener
		for i := range followers {
			listeners = append(listeners, listen(t, []*watch.Watcher{s.Watcher, others}[i%2], s.Client, job.ID, int64(i%2)))
		}
		for n := 2; n <= events; n++ {
			s.Exec(t, `WITH j AS (UPDATE jobs SET event_seq = event_seq + 1 WHERE id = ? RETURNING id, event_seq)
				INSERT INTO job_events (job_id, seq, run, type) SELECT id, event_seq, 1, 'PROGRESS' FROM j`, job.ID)
			s.Notifier.Notifications.Publish(t.Context(), string(job.ID))
			if n%100 == 0 { // late ones find the beginning only in PostgreSQL
				listeners = append(listeners, listen(t, s.Watcher, s.Client, job.ID, 0))
			}
		}
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)

		last := s.Reload(t, job.ID).EventSeq
		for i, l := range listeners {
			from := 1
			if i < followers {
				from += i % 2
			}
			l.next(t, from, last)
			l.ended(t)
		}
	})

	t.Run("WaitForASlowListener", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		var (
			seqs    []int
			release = make(chan struct{})
			stuck   = make(chan struct{})
			once    sync.Once
			done    = make(chan error, 1)
		)
		go func() {
			done <- jobstest.EachEvent(t.Context(), s.Watcher, s.Client, job.ID, 0, func(e *models.JobEvent) error {
				once.Do(func() { close(stuck); <-release })
				seqs = append(seqs, e.Seq)
				return nil
			})
		}()
		<-stuck
		quick := listen(t, s.Watcher, s.Client, job.ID, 0)
		s.Exec(t, `
			WITH numbered AS (UPDATE jobs SET event_seq = 1000 WHERE id = ?)
			INSERT INTO job_events (job_id, seq, run, type)
			SELECT ?, n, 1, 'PROGRESS' FROM generate_series(2, 1000) n`, job.ID, job.ID)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		last := s.Reload(t, job.ID).EventSeq
		quick.next(t, 1, last)
		quick.ended(t)

		close(release)

		require.NoError(t, <-done)
		require.Len(t, seqs, last)
		for i, seq := range seqs {
			require.Equal(t, i+1, seq)
		}
	})

	t.Run("AreHiddenFromOtherAccounts", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		stranger := s.NewKey(t, s.NewAccount(t, "stranger", models.TierPro), access.RoleClient)
		for _, id := range []models.JobID{job.ID, models.NewJobID(), "job_x", ""} {
			_, err := s.Watcher.Events(t.Context(), stranger, id, 0)
			require.ErrorIs(t, err, apierror.New(apierror.CodeNotFound, ""))
		}
	})

	t.Run("RefuseAnUnknownSeq", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		for _, after := range []int64{-1, 2, 1 << 40} {
			_, err := s.Watcher.Events(t.Context(), s.Client, job.ID, after)
			require.ErrorIs(t, err, apierror.New(apierror.CodeInvalidInput, ""), after)
		}
	})

	t.Run("EndWithTheirListener", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := s.Submit(t)
		gone := errors.New("gone")

		err := jobstest.EachEvent(t.Context(), s.Watcher, s.Client, job.ID, 0, func(*models.JobEvent) error { return gone })

		require.ErrorIs(t, err, gone)
		require.Zero(t, watch.Feeds(s.Watcher), "a feed without followers")
	})
}

func TestRing(t *testing.T) {
	t.Parallel()

	t.Run("IsBounded", func(t *testing.T) {
		t.Parallel()
		r := watch.NewRing()
		for n := 1; n <= 10_000; n++ {
			r.Add(n)
			held, behind := r.After(n - 1)
			require.False(t, behind)
			require.Equal(t, []int{n}, held)
		}
		_, behind := r.After(0)
		require.True(t, behind)
		held, behind := r.After(10_000 - watch.MaxRing)
		require.False(t, behind)
		require.Len(t, held, watch.MaxRing)
	})

	t.Run("DropsOldItems", func(t *testing.T) {
		t.Parallel()
		r := watch.NewRing()
		r.Add(1)
		r.Age()
		held, behind := r.After(0)
		require.False(t, behind)
		require.Equal(t, []int{1}, held)
		r.Add(2)
		r.Age()
		_, behind = r.After(0)
		require.True(t, behind)
		held, behind = r.After(1)
		require.False(t, behind)
		require.Equal(t, []int{2}, held)
	})

	t.Run("WakesWaitingSubscribers", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := watch.NewRing()
			var sums [100]int
			var wait sync.WaitGroup
			for i := range sums {
				wait.Go(func() {
					for at := 0; at < 300; {
						held, behind := r.After(at)
						if behind {
							panic(fmt.Sprintf("behind at %d", at))
						}
						for _, n := range held {
							at, sums[i] = n, sums[i]+n
						}
						if len(held) == 0 {
							r.Wait(i, at)
						}
					}
				})
			}
			for n := 1; n <= 300; n++ {
				r.Add(n)
				synctest.Wait()
			}
			wait.Wait()
			for _, sum := range sums {
				require.Equal(t, 300*301/2, sum)
			}
		})
	})
}
