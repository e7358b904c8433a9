package lease_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// idleWorkers counts the reads of a worker after a look that found no work.
type idleWorkers struct{ read atomic.Int64 }

func (w *idleWorkers) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (w *idleWorkers) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if strings.HasPrefix(e.Query, "SELECT") && strings.Contains(e.Query, `FROM "workers" AS "w" WHERE (w.id IN`) {
		w.read.Add(1)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()

	for name, lose := range jobstest.LoseIndex {
		t.Run("GivesEachJobToOneWorker"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			const workers, total = 20, 200
			keys := []jobs.Principal{s.Client, s.Admin}
			for _, tier := range []models.Tier{models.TierEnterprise, models.TierBatch} {
				keys = append(keys, s.NewKey(t, s.NewAccount(t, string(tier), tier), access.RoleClient))
			}
			for i := range total {
				jobstest.SubmitAs(t, s, keys[i%len(keys)], nil)
			}
			var fleet []jobs.Principal
			for i := range workers {
				fleet = append(fleet, s.Worker(t, fmt.Sprint(i)))
			}
			lose(s)

			var mu sync.Mutex
			given := map[models.JobID]int{}
			var calls sync.WaitGroup
			errs := make([]error, workers)
			for i, worker := range fleet {
				calls.Go(func() { errs[i] = leaseAll(s, worker, given, &mu) })
			}
			calls.Wait()

			for _, err := range errs {
				require.NoError(t, err)
			}
			require.Len(t, given, total)
			for id, times := range given {
				require.Equal(t, 1, times, id)
			}
			s.RequireInvariants(t)
		})
	}

	t.Run("AsksPostgreSQLBeforeItReturnsNothingToANonWaitingCall", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		require.NoError(t, s.Index().Remove(t.Context(), jobs.ReadyJob{Queue: job.Queue(), ID: job.ID, Account: job.AccountID, VirtualTime: -1}))

		require.Equal(t, job.ID, jobstest.LeaseNext(t, s, worker).Job.ID, "the index does not know it yet")
	})

	t.Run("ReturnsTheSameLeaseToARepeatedRequest", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		s.Submit(t)
		worker := s.Worker(t, "one")
		call := lease.LeaseCall{WorkerID: worker.WorkerID, RequestID: "r1"}
		first, _, err := s.Leaser.Lease(t.Context(), worker, call)
		require.NoError(t, err)

		again, _, err := s.Leaser.Lease(t.Context(), worker, call)

		require.NoError(t, err)
		require.Equal(t, first.Attempt.FencingToken, again.Attempt.FencingToken)
		require.Equal(t, first.Job.ID, again.Job.ID)
		for _, id := range []string{"", "r2"} {
			call.RequestID = id
			none, directive, err := s.Leaser.Lease(t.Context(), worker, call)
			require.NoError(t, err)
			require.Nil(t, none, "a busy worker gets nothing else")
			require.Nil(t, directive)
		}
		s.RequireInvariants(t)
	})

	t.Run("GivesOneRequestNoSecondLease", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker, other := s.Worker(t, "one"), s.Worker(t, "two")
		for _, end := range []func(lease.Fence) error{
			func(f lease.Fence) error {
				_, err := s.Attempts.Release(t.Context(), worker, f, models.FailPreempted)
				return err
			},
			func(f lease.Fence) error {
				_, err := s.Attempts.Fail(t.Context(), worker, f, lease.Failure{Class: models.FailTransient, Message: "no luck"})
				return err
			},
		} {
			s.Submit(t)
			call := lease.LeaseCall{WorkerID: worker.WorkerID, RequestID: uuid.NewString()}
			granted, _, err := s.Leaser.Lease(t.Context(), worker, call)
			require.NoError(t, err)
			require.NoError(t, end(jobstest.FenceOf(granted)))
			s.Submit(t)

			for range 2 {
				late, directive, err := s.Leaser.Lease(t.Context(), worker, call)

				require.NoError(t, err)
				require.Nil(t, late, "its caller is gone")
				require.Nil(t, directive)
			}
			theirs, _, err := s.Leaser.Lease(t.Context(), other, lease.LeaseCall{WorkerID: other.WorkerID, RequestID: call.RequestID})
			require.NoError(t, err)
			require.NotNil(t, theirs, "another worker's request is another one")
			_, err = s.Attempts.Release(t.Context(), other, jobstest.FenceOf(theirs), models.FailPreempted)
			require.NoError(t, err)
			own := jobstest.LeaseNext(t, s, worker)
			require.NotNil(t, own, "the worker's own call gets the next job")
			_, err = s.Attempts.Release(t.Context(), worker, jobstest.FenceOf(own), models.FailPreempted)
			require.NoError(t, err)
		}
		s.RequireInvariants(t)
	})

	t.Run("GivesNoSecondLeaseIfTheFirstBeganAndEndedMeanwhile", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		s.Submit(t)
		call := lease.LeaseCall{WorkerID: worker.WorkerID, RequestID: "r1"}
		tx, err := s.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = models.LockWorker(t.Context(), tx, worker.WorkerID)
		require.NoError(t, err)
		late := make(chan *lease.Lease)
		go func() {
			lease, _, _ := s.Leaser.Lease(t.Context(), worker, call)
			late <- lease
		}()
		s.WaitForLocks(t, 1) // it has looked, and has not seen the other lease

		_, err = tx.NewRaw(`INSERT INTO job_attempts (
				id, job_id, run, attempt_no, worker_id, fencing_token, lease_request_id, status,
				leased_at, lease_expires_at, ended_at, failure_class)
			SELECT gen_random_uuid(), id, run, 100, ?, gen_random_uuid(), 'r1', 'RELEASED', now(), now(), now(), 'PREEMPTED' FROM jobs`,
			worker.WorkerID).Exec(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Commit())

		require.Nil(t, <-late)
		require.Equal(t, 1, s.Count(t, "job_attempts"))
		require.NotNil(t, jobstest.LeaseNext(t, s, worker))
	})

	t.Run("GivesABusyWorkerNothingAndKeepsItsLease", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Submit(t)
		worker := s.Worker(t, "one")
		require.NotNil(t, jobstest.LeaseNext(t, s, worker))
		const wait = 50 * time.Millisecond
		begun := time.Now()

		none, directive, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: wait})

		require.NoError(t, err)
		require.Nil(t, none)
		require.Nil(t, directive)
		require.GreaterOrEqual(t, time.Since(begun), wait, "one that asks in a loop would cost a processor")
	})

	t.Run("GivesConcurrentCallsOfOneWorkerOneJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for range 5 {
			s.Submit(t)
		}
		worker := s.Worker(t, "one")

		tokens := make([]models.FencingToken, 10)
		var calls sync.WaitGroup
		for i := range tokens {
			calls.Go(func() {
				lease, _, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, RequestID: "r1"})
				if err == nil && lease != nil {
					tokens[i] = lease.Attempt.FencingToken
				}
			})
		}
		calls.Wait()

		for _, token := range tokens {
			require.Equal(t, tokens[0], token)
		}
		require.True(t, tokens[0].Valid())
		require.Equal(t, 1, s.Count(t, "job_attempts"))
	})

	t.Run("WakesOneWaitingCallForEachJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		one, two := s.Worker(t, "one"), s.Worker(t, "two")
		found := make(chan *lease.Lease, 2)
		for _, worker := range []jobs.Principal{one, two} {
			go func() {
				lease, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
				found <- lease
			}()
		}
		testrun.Eventually(t, "two calls wait", func() bool { return s.Notifier.Waiters.Waiting() == 2 })
		clock := testrun.StartQuietClock()

		jobOne, jobTwo := s.Submit(t), s.Submit(t)

		first, second := <-found, <-found
		require.NotNil(t, first)
		require.NotNil(t, second)
		require.ElementsMatch(t, []models.JobID{jobOne.ID, jobTwo.ID}, []models.JobID{first.Job.ID, second.Job.ID})
		require.Less(t, clock.Elapsed(), lease.MaxLeaseWait/2)
	})

	t.Run("GivesAJobToTheWorkerOnWhichItCostsLeast", func(t *testing.T) {
		t.Parallel()

		for name, c := range map[string]struct {
			dear, cheap float64
			warm        bool // the dear one has the model in memory
			want        string
		}{
			"TheCheaper":                       {dear: 3, cheap: 1, want: "cheap"},
			"TheCheaperThatLoads":              {dear: 3, cheap: 1, warm: true, want: "cheap"},
			"TheWarmOneIfTheLoadCostsMore":     {dear: 1.1, cheap: 1, warm: true, want: "dear"},
			"TheWarmOneAtTheSamePrice":         {dear: 1, cheap: 1, warm: true, want: "dear"},
			"TheFirstIfTheyAreEqual":           {dear: 1, cheap: 1, want: "dear"},
			"TheWarmOneIfNeitherCostsAnything": {warm: true, want: "dear"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				s := jobstest.New(t)
				idle := new(idleWorkers)
				s.Leaser.DB = s.DB.WithQueryHook(idle)
				found := make(chan string, 2)
				for i, one := range []struct {
					name  string
					price float64
					warm  bool
				}{{"dear", c.dear, c.warm}, {"cheap", c.cheap, false}} {
					worker := s.Worker(t, one.name)
					s.Exec(t, "UPDATE workers SET price_per_hour_usd = ? WHERE id = ?", one.price, worker.WorkerID)
					call := lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait}
					if one.warm {
						call.Warm = []string{"testcard"}
					}
					go func() {
						got, _, _ := s.Leaser.Lease(t.Context(), worker, call)
						if got != nil {
							found <- one.name
						}
					}()
					// After its first look for work, a call reads its worker once more and waits. A look that is late
					// would find the job itself.
					testrun.Eventually(t, "the call waits", func() bool { return idle.read.Load() == int64(i)+1 })
				}

				s.Submit(t)

				require.Equal(t, c.want, <-found)
			})
		}
	})

	t.Run("TellsAWaitingWorkerToDrain", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		told := make(chan *lease.Directive, 1)
		go func() {
			_, directive, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
			told <- directive
		}()
		testrun.Eventually(t, "a call waits", func() bool { return s.Notifier.Waiters.Waiting() == 1 })

		_, err := s.Fleet.DrainWorker(t.Context(), s.Admin, worker.WorkerID, time.Minute)

		require.NoError(t, err)
		directive := <-told
		require.NotNil(t, directive)
		require.Equal(t, lease.DirectDrain, directive.Action)
		require.Greater(t, time.Until(directive.Deadline), 75*time.Second, "its job may run for a minute, and is saved after that")
		s.Submit(t)
		require.Nil(t, jobstest.LeaseNext(t, s, worker), "a draining worker takes no job")
	})

	t.Run("ReturnsAtOnceWhenTheProcessEnds", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		answered := make(chan error, 1)
		ask := func() {
			_, _, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
			answered <- err
		}
		go ask()
		testrun.Eventually(t, "a call waits", func() bool { return s.Notifier.Waiters.Waiting() == 1 })
		clock := testrun.StartQuietClock()

		s.Notifier.Waiters.Dismiss()
		require.NoError(t, <-answered)
		ask() // a later call

		require.NoError(t, <-answered)
		require.Less(t, clock.Elapsed(), lease.MaxLeaseWait/2)
		job := s.Submit(t)
		require.Equal(t, job.ID, jobstest.LeaseNext(t, s, worker).Job.ID, "work that is there is given until the end")
	})

	t.Run("ForwardsAWakeThatItsCallCannotUse", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		drained, ready := s.Worker(t, "drained"), s.Worker(t, "ready")
		found := make(chan *lease.Lease, 2)
		for i, worker := range []jobs.Principal{drained, ready} {
			go func() {
				lease, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
				found <- lease
			}()
			testrun.Eventually(t, "the call waits", func() bool { return s.Notifier.Waiters.Waiting() == i+1 })
		}
		s.Exec(t, "UPDATE workers SET status = 'DRAINING' WHERE id = ?", drained.WorkerID) // by another replica, which cannot wake the call here
		clock := testrun.StartQuietClock()

		job := s.Submit(t) // wakes the earlier call

		first, second := <-found, <-found
		if first == nil {
			first = second
		}
		require.NotNil(t, first)
		require.Equal(t, job.ID, first.Job.ID)
		require.Less(t, clock.Elapsed(), lease.MaxLeaseWait/2)
	})

	t.Run("SkipsStaleHintsAndRemovesThem", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var stale []jobs.ReadyJob
		for range 3 {
			gone := s.Submit(t)
			_, err := s.Canceller.Cancel(t.Context(), s.Client, gone.ID)
			require.NoError(t, err)
			stale = append(stale, jobs.ReadyJob{ID: gone.ID, Account: gone.AccountID, Queue: gone.Queue()})
		}
		stranger := s.NewAccount(t, "stranger", models.TierEnterprise)
		real := s.Submit(t)
		critical := models.Queue{Line: models.Line{Lane: models.TierCritical}, Model: "testcard"}
		stale = append(stale,
			jobs.ReadyJob{ID: models.NewJobID(), Account: s.Account.ID, Queue: critical},
			jobs.ReadyJob{ID: models.NewJobID(), Account: models.NewAccountID(), Queue: critical},
			jobs.ReadyJob{ID: real.ID, Account: stranger.ID, Queue: critical},
		)
		require.NoError(t, s.Notifier.Index.Add(t.Context(), stale...))
		require.NoError(t, s.Readier.Sweep(t.Context()))

		held := jobstest.LeaseNext(t, s, s.Worker(t, "one"))

		require.NotNil(t, held)
		require.Equal(t, real.ID, held.Job.ID)
		require.Nil(t, jobstest.LeaseNext(t, s, s.Worker(t, "two")))
		left, err := s.Notifier.Index.First(t.Context(), []models.Queue{critical, real.Queue()}, nil, 10)
		require.NoError(t, err)
		require.Empty(t, left)
		s.RequireInvariants(t)
	})

	t.Run("GivesOnlyJobsOfTheWorkersModels", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		s.Exec(t, "UPDATE jobs SET model = 'other' WHERE id = ?", job.ID)
		s.Index().Lose()

		require.Nil(t, jobstest.LeaseNext(t, s, s.Worker(t, "one")))
	})

	t.Run("RefusesInvalidCalls", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker, other := s.Worker(t, "one"), s.Worker(t, "two")
		ask := func(p jobs.Principal, call lease.LeaseCall) error {
			_, _, err := s.Leaser.Lease(t.Context(), p, call)
			return err
		}

		jobstest.RequireInvalid(t, ask(worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: -time.Second}), "waitSeconds")
		jobstest.RequireInvalid(t, ask(worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: time.Minute}), "waitSeconds")
		jobstest.RequireInvalid(t, ask(worker, lease.LeaseCall{WorkerID: worker.WorkerID, RequestID: "a\x00"}), "requestId")
		jobstest.RequireCode(t, ask(worker, lease.LeaseCall{WorkerID: other.WorkerID}), apierror.CodeNotFound)
		jobstest.RequireCode(t, ask(s.Enrolment, lease.LeaseCall{WorkerID: worker.WorkerID}), apierror.CodeForbidden)
		jobstest.RequireCode(t, ask(s.Client, lease.LeaseCall{WorkerID: worker.WorkerID}), apierror.CodeForbidden)
		_, err := s.Registrar.Deregister(t.Context(), worker, worker.WorkerID)
		require.NoError(t, err)
		jobstest.RequireCode(t, ask(worker, lease.LeaseCall{WorkerID: worker.WorkerID}), apierror.CodeConflict)
	})
}

// leaseAll leases jobs and fails them for good until none is left.
func leaseAll(s *jobstest.Stack, worker jobs.Principal, given map[models.JobID]int, mu *sync.Mutex) error {
	for {
		granted, _, err := s.Leaser.Lease(context.Background(), worker, lease.LeaseCall{WorkerID: worker.WorkerID})
		if err != nil || granted == nil {
			return err
		}
		mu.Lock()
		given[granted.Job.ID]++
		mu.Unlock()
		if _, err := s.Attempts.Fail(context.Background(), worker, jobstest.FenceOf(granted),
			lease.Failure{Class: models.FailContentPolicy}); err != nil {
			return err
		}
	}
}
