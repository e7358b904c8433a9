package watch_test

import (
	"context"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/features/watch"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// hearing is a worker that listens.
type hearing struct {
	received chan lease.Directive
	ended    chan error
}

func receive(t *testing.T, s *jobstest.Stack, worker jobs.Principal) *hearing {
	t.Helper()
	h := &hearing{received: make(chan lease.Directive), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		h.ended <- s.Watcher.Directives(ctx, worker, worker.WorkerID, func(d *lease.Directive) error {
			select {
			case h.received <- *d:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	}()
	return h
}

// next returns the next directive, which must come sooner than a look without a notification.
func (h *hearing) next(t *testing.T) lease.Directive {
	t.Helper()
	clock := testrun.StartQuietClock()
	d := testrun.Receive(t, "a directive", h.received)
	require.Less(t, clock.Elapsed(), 4*time.Second)
	return d
}

func TestDirectives(t *testing.T) {
	t.Parallel()

	t.Run("DeliverACancelToABusyWorkerAndRecordIt", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		h := receive(t, s, worker)
		require.Equal(t, lease.DirectContinue, h.next(t).Action)

		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)

		require.NoError(t, err)
		require.Equal(t, lease.Directive{Action: lease.DirectCancel, JobID: job.ID}, h.next(t))
		_, err = s.Attempts.Release(t.Context(), worker, fence, models.FailPreempted)
		require.NoError(t, err)
		testrun.Eventually(t, "the delivery of the cancellation is noted", func() bool { return !s.Reload(t, job.ID).CancelDeliveredAt.IsZero() })
		require.Equal(t, models.JobCancelled, s.Reload(t, job.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("BeginWithTheCurrentDirective", func(t *testing.T) {
		t.Parallel()

		s, job, worker, _ := jobstest.Leased(t)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		_, err = s.Fleet.DrainWorker(t.Context(), s.Admin, worker.WorkerID, time.Minute)
		require.NoError(t, err)

		h := receive(t, s, worker)

		require.Equal(t, lease.DirectCancel, h.next(t).Action)
		drain := h.next(t)
		require.Equal(t, lease.DirectDrain, drain.Action)
		require.WithinDuration(t, time.Now().Add(time.Minute), drain.Deadline, 30*time.Second)
	})

	t.Run("AskABusyWorkerToGiveWayForAWhile", func(t *testing.T) {
		t.Parallel()

		s, job, worker, _ := jobstest.Leased(t)
		s.Exec(t, "UPDATE job_attempts SET yield_requested_at = clock_timestamp(), yield_to = 'PRO'")
		h := receive(t, s, worker)
		d := h.next(t)
		require.Equal(t, lease.DirectCheckpoint, d.Action)
		require.Equal(t, job.ID, d.JobID)

		s.Exec(t, "UPDATE job_attempts SET yield_requested_at = clock_timestamp() - interval '121 s'")
		s.Notifier.Worker(t.Context(), worker.WorkerID)
		require.Equal(t, lease.DirectContinue, h.next(t).Action)
	})

	t.Run("AreFoundWithoutNews", func(t *testing.T) {
		t.Parallel()

		s, job, worker, _ := jobstest.Leased(t)
		h := receive(t, s, worker)
		require.Equal(t, lease.DirectContinue, h.next(t).Action)

		_, err := s.DB.NewRaw("UPDATE jobs SET cancel_requested_at = clock_timestamp() WHERE id = ?", job.ID).Exec(t.Context())

		require.NoError(t, err)
		require.Equal(t, lease.DirectCancel, (<-h.received).Action)
	})

	t.Run("AreLookedUpForManyAtOnce", func(t *testing.T) {
		t.Parallel()

		s, job, busy, _ := jobstest.Leased(t)
		idle := s.Worker(t, "idle").WorkerID
		_, err := s.Fleet.DrainWorker(t.Context(), s.Admin, idle, time.Minute)
		require.NoError(t, err)

		rows, err := watch.Look(t.Context(), s.Watcher, idle, models.NewWorkerID(), busy.WorkerID, idle)

		require.NoError(t, err)
		require.Nil(t, rows[1], "there is no such worker")
		require.Equal(t, []any{models.WorkerDraining, models.JobID("")}, []any{rows[0].Status, rows[0].JobID})
		require.Equal(t, []any{models.WorkerBusy, job.ID}, []any{rows[2].Status, rows[2].JobID})
		require.Equal(t, rows[0], rows[3], "it listens twice")
		require.NotSame(t, rows[0], rows[3])
	})

	for name, act := range map[string]func(t *testing.T, s *jobstest.Stack, id models.WorkerID) error{
		"DrainWorker": func(_ *testing.T, s *jobstest.Stack, id models.WorkerID) error {
			_, err := s.Fleet.DrainWorker(context.Background(), s.Admin, id, time.Minute)
			return err
		},
		"PreemptWorker": func(t *testing.T, s *jobstest.Stack, id models.WorkerID) error {
			t.Helper()
			s.Exec(t, "UPDATE workers SET pool_id = ?", jobstest.AddPool(t, s, 0, 1).ID)
			s.Fleet.Providers["static"] = obedient{}
			_, err := s.Fleet.PreemptWorker(context.Background(), s.Admin, id, time.Minute)
			return err
		},
	} {
		t.Run("ReachAnIdleWorkerForA"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			worker := s.Worker(t, "one")
			h := receive(t, s, worker)
			require.Equal(t, lease.DirectContinue, h.next(t).Action)

			require.NoError(t, act(t, s, worker.WorkerID))

			require.Equal(t, lease.DirectDrain, h.next(t).Action)
		})
	}

	t.Run("EndWithTheWorker", func(t *testing.T) {
		t.Parallel()

		s, _, worker, _ := jobstest.Leased(t)
		h := receive(t, s, worker)
		require.Equal(t, lease.DirectContinue, h.next(t).Action)

		_, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, worker.WorkerID)

		require.NoError(t, err)
		require.Equal(t, lease.DirectTerminate, h.next(t).Action)
		require.NoError(t, <-h.ended)
	})

	t.Run("AreOnlyForTheWorkerItself", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		one, other := s.Worker(t, "one"), s.Worker(t, "other")
		refused := func(p jobs.Principal) error {
			return s.Watcher.Directives(t.Context(), p, one.WorkerID, func(*lease.Directive) error { return nil })
		}

		jobstest.RequireCode(t, refused(other), apierror.CodeNotFound)
		jobstest.RequireCode(t, refused(s.Enrolment), apierror.CodeForbidden)
	})
}

// obedient is a provider whose machines accept a notice.
type obedient struct{ fleet.Provider }

func (obedient) Preempt(context.Context, *capacity.Pool, fleet.Instance, time.Duration) error {
	return nil
}
