package lease_test

import (
	"context"
	"sync"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/postgres"
	"github.com/reelay/reelay/models/webhooks"
	"github.com/stretchr/testify/require"
)

// TestComplete_AfterAnEarlierChange ends a job while its account is locked and an earlier call
// waits for the same account. The end must see what that call wrote.
func TestComplete_AfterAnEarlierChange(t *testing.T) {
	t.Parallel()

	for what, c := range map[string]struct {
		first    func(*testing.T, *jobstest.Stack, *models.Job) error
		notified func(*testing.T, *jobstest.Stack)
	}{
		"ANewWebhook": {
			first: func(t *testing.T, s *jobstest.Stack, _ *models.Job) error {
				_, _, err := s.Webhooks.CreateEndpoint(context.Background(), s.Client, "https://example.com/", webhooks.FormatStandard, nil)
				return err
			},
			notified: func(t *testing.T, s *jobstest.Stack) { require.Equal(t, 1, s.Count(t, "webhook_deliveries")) },
		},
		"AJobThatDependsOnIt": {
			first: func(t *testing.T, s *jobstest.Stack, parent *models.Job) error {
				in := jobstest.Submission()
				in.DependsOn = []models.JobID{parent.ID}
				_, _, err := s.Submitter.Submit(context.Background(), s.Client, in)
				return err
			},
			notified: func(t *testing.T, s *jobstest.Stack) {
				var queued int
				require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM jobs WHERE status = 'QUEUED'").Scan(t.Context(), &queued))
				require.Equal(t, 1, queued)
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := jobstest.New(t)
			s.Submit(t)
			worker := s.Worker(t, "w")
			leased, fence := s.Lease(t, worker)
			video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("video"))
			holder, err := s.DB.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer holder.Rollback()
			_, err = models.LockAccount(t.Context(), holder, s.Account.ID)
			require.NoError(t, err)
			var calls sync.WaitGroup
			var first, end error
			calls.Go(func() { first = c.first(t, s, leased.Job) })
			s.WaitForLocks(t, 1)
			calls.Go(func() {
				_, end = s.Attempts.Complete(context.Background(), worker, fence, lease.Completion{Video: &video})
			})
			s.WaitForLocks(t, 2)

			require.NoError(t, holder.Commit())
			calls.Wait()

			require.NoError(t, first)
			require.NoError(t, end)
			c.notified(t, s)
			s.RequireInvariants(t)
		})
	}
}

func TestComplete_BesideOtherTransactions(t *testing.T) {
	t.Parallel()

	// ending returns a job, and a function that ends it.
	ending := func(t *testing.T) (s *jobstest.Stack, job *models.Job, end func() error) {
		t.Helper()
		s = jobstest.New(t)
		s.Submit(t)
		worker := s.Worker(t, "w")
		leased, fence := s.Lease(t, worker)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("video"))
		return s, leased.Job, func() error {
			_, err := s.Attempts.Complete(context.Background(), worker, fence, lease.Completion{Video: &video})
			return err
		}
	}

	t.Run("DoesNotLockItsAccountWhileItWaits", func(t *testing.T) {
		t.Parallel()

		s, job, end := ending(t)
		holder := jobstest.Begin(t, s)
		_, err := models.LockJob(t.Context(), holder, job.ID)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- end() }()
		s.WaitForLocks(t, 1)

		s.Submit(t)
		require.NoError(t, holder.Commit())

		require.NoError(t, <-ended)
		s.RequireInvariants(t)
	})

	t.Run("SurvivesADeadlockWithATransactionThatHoldsTheAccount", func(t *testing.T) {
		t.Parallel()

		s, job, end := ending(t)
		holder := jobstest.Begin(t, s)
		_, err := models.LockAccount(t.Context(), holder, s.Account.ID)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- end() }()
		s.WaitForLocks(t, 1)

		_, err = models.LockJob(t.Context(), holder, job.ID)

		if err == nil { // PostgreSQL ended the other transaction, which is tried again
			require.NoError(t, holder.Commit())
		} else {
			require.True(t, postgres.IsLostRace(err), err)
			require.NoError(t, holder.Rollback())
		}
		require.NoError(t, <-ended)
		s.RequireInvariants(t)
	})
}

func TestCancel_BesideOtherTransactions(t *testing.T) {
	t.Parallel()

	t.Run("DoesNotLockItsAccountWhileItWaits", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		holder := jobstest.Begin(t, s)
		_, err := models.LockJob(t.Context(), holder, job.ID)
		require.NoError(t, err)
		cancelled := make(chan error, 1)
		go func() {
			_, err := s.Canceller.Cancel(context.Background(), s.Client, job.ID)
			cancelled <- err
		}()
		s.WaitForLocks(t, 1)

		_, err = models.LockAccount(t.Context(), holder, s.Account.ID)

		require.NoError(t, err)
		require.NoError(t, holder.Commit())
		require.NoError(t, <-cancelled)
		s.RequireInvariants(t)
	})
}

// TestBusyAccount ends jobs and sends heartbeats while a large change holds rows of one of them.
func TestBusyAccount(t *testing.T) {
	t.Parallel()

	t.Run("DelaysNoEndOfAnother", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		quiet := s.NewKey(t, s.NewAccount(t, "quiet", models.TierPro), access.RoleClient)
		s.Submit(t)
		busy, free := s.Worker(t, "busy"), s.Worker(t, "free")
		_, held := s.Lease(t, busy)
		jobstest.SubmitAs(t, s, quiet, nil)
		_, other := s.Lease(t, free)
		videos := map[models.AttemptID]jobs.UploadedObject{
			held.AttemptID:  s.Upload(t, busy, held, models.ArtifactFinalVideo, []byte("video")),
			other.AttemptID: s.Upload(t, free, other, models.ArtifactFinalVideo, []byte("video")),
		}
		end := func(worker jobs.Principal, f lease.Fence) error {
			_, err := s.Attempts.Complete(context.Background(), worker, f, lease.Completion{Video: new(videos[f.AttemptID])})
			return err
		}
		holder := jobstest.Begin(t, s)
		_, err := models.LockAccount(t.Context(), holder, s.Account.ID)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- end(busy, held) }()
		s.WaitForLocks(t, 1)

		require.NoError(t, end(free, other), "before the account is free")

		require.NoError(t, holder.Commit())
		require.NoError(t, <-ended)
		s.RequireInvariants(t)
	})

	t.Run("DelaysNoHeartbeatOfAnother", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		s.Submit(t)
		busy, free := s.Worker(t, "busy"), s.Worker(t, "free")
		stuck, held := s.Lease(t, busy)
		_, other := s.Lease(t, free)
		beat := func(worker jobs.Principal, f lease.Fence) error {
			_, err := s.Attempts.Heartbeat(context.Background(), worker, f, nil)
			return err
		}
		require.NoError(t, beat(busy, held)) // the first one begins the attempt
		require.NoError(t, beat(free, other))
		holder := jobstest.Begin(t, s)
		_, err := models.LockJob(t.Context(), holder, stuck.Job.ID)
		require.NoError(t, err)
		beaten := make(chan error, 1)
		go func() { beaten <- beat(busy, held) }()
		s.WaitForLocks(t, 1)

		require.NoError(t, beat(free, other), "before the job is free")

		require.NoError(t, holder.Commit())
		require.NoError(t, <-beaten)
	})
}
