package lease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	provideraccounts "github.com/reelay/reelay/features/hosted"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// hosted makes a pool of Kling, whose account takes three jobs at a time.
func hosted(t *testing.T, s *jobstest.Stack, name string) *capacity.Pool {
	t.Helper()
	pool, err := s.Pools.Create(t.Context(), s.Admin, capacity.PoolSpec{
		Name: name, Provider: engine.Provider, EngineKind: "kling", Models: []string{"testcard"},
	})
	require.NoError(t, err)
	return pool
}

// hostedWorker registers a worker of an agent of that pool.
func hostedWorker(t *testing.T, s *jobstest.Stack, pool, agent string, slot int) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: engine.Provider, ProviderInstanceID: pool + "@kling#" + agent, Slot: slot, GPUCount: 1, PoolID: models.PoolID(pool),
		Region: "local", GPUType: "any", CapacityClass: models.CapacityOnDemand, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

func TestProviderSlots(t *testing.T) {
	t.Parallel()

	ask := func(t *testing.T, s *jobstest.Stack, w jobs.Principal) *lease.Lease {
		t.Helper()
		granted, _, err := s.Leaser.Lease(t.Context(), w, lease.LeaseCall{WorkerID: w.WorkerID})
		require.NoError(t, err)
		return granted
	}
	fail := func(t *testing.T, s *jobstest.Stack, w jobs.Principal, l *lease.Lease, class models.FailureClass) *models.Job {
		t.Helper()
		end, err := s.Attempts.Fail(t.Context(), w, jobstest.FenceOf(l), lease.Failure{Class: class, Message: "The provider says so."})
		require.NoError(t, err)
		return end.Job
	}

	t.Run("AreNeverMoreThanTheLimitHoweverManyAgentsAsk", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		for range 12 {
			s.Submit(t)
		}
		var workers []jobs.Principal
		for agent := range 4 {
			for slot := range 3 {
				workers = append(workers, hostedWorker(t, s, "hosted", fmt.Sprint("agent", agent), slot))
			}
		}
		var mu sync.Mutex
		var given []*lease.Lease
		var asking sync.WaitGroup
		for _, w := range workers {
			asking.Go(func() {
				granted, _, err := s.Leaser.Lease(t.Context(), w, lease.LeaseCall{WorkerID: w.WorkerID})
				if err == nil && granted != nil {
					mu.Lock()
					defer mu.Unlock()
					given = append(given, granted)
				}
			})
		}
		asking.Wait()
		require.Len(t, given, 3)
	})

	t.Run("BelongToJobsWhoseWorkMayGoOn", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		for range 6 {
			s.Submit(t)
		}
		var leases []*lease.Lease
		var workers []jobs.Principal
		for slot := range 3 {
			workers = append(workers, hostedWorker(t, s, "hosted", "a", slot))
			leases = append(leases, ask(t, s, workers[slot]))
			require.NotNil(t, leases[slot])
		}
		_, err := s.Attempts.StoreHandle(t.Context(), workers[0], jobstest.FenceOf(leases[0]), `{"ref":"paid"}`)
		require.NoError(t, err)
		_, err = s.Attempts.Release(t.Context(), workers[0], jobstest.FenceOf(leases[0]), models.FailWorkerLost)
		require.NoError(t, err)

		again := ask(t, s, hostedWorker(t, s, "hosted", "b", 0))
		require.NotNil(t, again, "the job with a slot starts again although all slots are taken")
		require.Equal(t, leases[0].Job.ID, again.Job.ID)
		other := hostedWorker(t, s, "hosted", "b", 1)
		require.Nil(t, ask(t, s, other))

		fail(t, s, workers[1], leases[1], models.FailModelCrash) // without a handle nothing goes on
		require.NotNil(t, ask(t, s, other), "a slot is free again")
	})

	// left leases the next job, stores a handle, and gives the job back, as if its worker were lost.
	left := func(t *testing.T, s *jobstest.Stack, w jobs.Principal) *models.Job {
		t.Helper()
		granted := ask(t, s, w)
		require.NotNil(t, granted)
		_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"ref":"paid"}`)
		require.NoError(t, err)
		job, err := s.Attempts.Release(t.Context(), w, jobstest.FenceOf(granted), models.FailWorkerLost)
		require.NoError(t, err)
		return job
	}

	for name, refused := range map[string]string{
		"Avoids":    "UPDATE jobs SET avoid_worker_id = (SELECT id FROM workers WHERE slot = 0), avoid_until = now() + interval '1 hour'",
		"IsExpired": "UPDATE jobs SET expires_at = now() - interval '1 second'",
		"IsGone":    "UPDATE jobs SET require_region = true, region = 'elsewhere'",
		"IsCapped":  "UPDATE accounts SET max_running = 0",
	} {
		t.Run("AreNotTakenByAClaimThatIsRefused"+name, func(t *testing.T) {
			t.Parallel()
			s := jobstest.New(t)
			hosted(t, s, "hosted")
			s.Submit(t)
			w := hostedWorker(t, s, "hosted", "a", 0)
			hostedWorker(t, s, "hosted", "a", 1)
			s.Exec(t, refused)

			require.Nil(t, ask(t, s, w))

			require.Zero(t, s.Count(t, "provider_slots"))
		})
	}

	t.Run("AreForgottenIfNoWorkerHasTheJob", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Submit(t)
		w := hostedWorker(t, s, "hosted", "a", 0)
		job := left(t, s, w)
		require.NoError(t, capacity.ForgetSlots(t.Context(), s.DB))
		require.Equal(t, 1, s.Count(t, "provider_slots"), "its work may go on")
		again := ask(t, s, w)
		require.NotNil(t, again)
		require.NoError(t, capacity.ForgetSlots(t.Context(), s.DB))
		require.Equal(t, 1, s.Count(t, "provider_slots"), "a worker has it")
		_, err := s.Attempts.Release(t.Context(), w, jobstest.FenceOf(again), models.FailWorkerLost)
		require.NoError(t, err)

		s.Exec(t, "UPDATE provider_slots SET expires_at = NULL WHERE job_id = ?", job.ID)
		require.NoError(t, capacity.ForgetSlots(t.Context(), s.DB))

		require.Zero(t, s.Count(t, "provider_slots"))
	})

	t.Run("BindAJobToThePoolWhoseProviderHasIt", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		first, second := hosted(t, s, "first"), hosted(t, s, "second")
		s.Submit(t)
		at := hostedWorker(t, s, "first", "a", 0)
		bound := left(t, s, at)
		behind := s.Submit(t)
		other := hostedWorker(t, s, "second", "b", 0)
		took := func(pool models.PoolID) (answer capacity.SlotAnswer) {
			require.NoError(t, jobs.InTx(t.Context(), s.DB, func(ctx context.Context, tx bun.Tx) error {
				answers, err := capacity.TakeSlots(ctx, tx, []capacity.SlotWish{{PoolID: pool, JobID: bound.ID}})
				answer = answers[bound.ID]
				return err
			}))
			return answer
		}

		granted := ask(t, s, other)
		require.NotNil(t, granted, "what the other pool has stops nobody")
		require.Equal(t, behind.ID, granted.Job.ID)
		fail(t, s, other, granted, models.FailInvalidInput)
		require.Equal(t, capacity.SlotAnswer{JobID: bound.ID, Elsewhere: true}, took(second.ID))

		s.Exec(t, "UPDATE provider_slots SET expires_at = clock_timestamp() - interval '1 second'")
		require.NoError(t, capacity.ForgetSlots(t.Context(), s.DB))
		require.Nil(t, ask(t, s, other), "the first account paid for it, however long that is ago")
		require.Equal(t, capacity.SlotAnswer{JobID: bound.ID, Elsewhere: true}, took(second.ID))
		granted = ask(t, s, at)
		require.NotNil(t, granted)
		require.Equal(t, bound.ID, granted.Job.ID)
		_, err := s.Attempts.Release(t.Context(), at, jobstest.FenceOf(granted), models.FailWorkerLost)
		require.NoError(t, err)

		s.Exec(t, "DELETE FROM provider_accounts WHERE pool_id = ?", first.ID)
		require.NotNil(t, ask(t, s, other), "without the pool nobody can go on with the work")
	})

	t.Run("OfAnAccountAtItsLimitLetOthersStart", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Submit(t)
		w := hostedWorker(t, s, "hosted", "a", 0)
		left(t, s, w)
		s.Exec(t, "UPDATE accounts SET max_running = 0 WHERE id = ?", s.Account.ID)
		account := s.NewAccount(t, "other", models.TierEnterprise)
		other := jobstest.SubmitAs(t, s, s.NewKey(t, account, access.RoleClient), nil)

		granted := ask(t, s, w)

		require.NotNil(t, granted)
		require.Equal(t, other.ID, granted.Job.ID)
	})

	t.Run("OfAJobThatTheWorkerCannotRunLetOthersGoOn", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Exec(t, "UPDATE provider_accounts SET concurrent = 2")
		s.Submit(t)
		s.Submit(t)
		w, other := hostedWorker(t, s, "hosted", "a", 0), hostedWorker(t, s, "hosted", "a", 1)
		granted := ask(t, s, w)
		next := left(t, s, other)
		_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"ref":"paid"}`)
		require.NoError(t, err)
		_, err = s.Attempts.Release(t.Context(), w, jobstest.FenceOf(granted), models.FailWorkerLost)
		require.NoError(t, err)
		s.Exec(t, "UPDATE jobs SET require_region = true, region = 'elsewhere' WHERE id = ?", granted.Job.ID)

		granted = ask(t, s, w)

		require.NotNil(t, granted)
		require.Equal(t, next.ID, granted.Job.ID)
	})

	t.Run("LetAJobThatIsSubmittedAgainGoOn", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Exec(t, "UPDATE provider_accounts SET concurrent = 1, on_unknown = 'PAY_AGAIN'")
		job := s.Submit(t)
		w := hostedWorker(t, s, "hosted", "a", 0)
		granted := ask(t, s, w)
		_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"key":"k"}`)
		require.NoError(t, err)
		require.Empty(t, fail(t, s, w, granted, models.FailSubmitUnknown).Handle)

		again := ask(t, s, w)

		require.NotNil(t, again, "its own slot is the last")
		require.Equal(t, job.ID, again.Job.ID)
	})

	t.Run("AreFreeWhileTheFilmIsUploaded", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Exec(t, "UPDATE provider_accounts SET concurrent = 1")
		s.Submit(t)
		s.Submit(t)
		w, other := hostedWorker(t, s, "hosted", "a", 0), hostedWorker(t, s, "hosted", "b", 0)
		granted := ask(t, s, w)
		_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"ref":"paid"}`)
		require.NoError(t, err)
		report := func(phase models.Phase) {
			_, err := s.Attempts.ReportProgress(t.Context(), w, jobstest.FenceOf(granted),
				lease.ProgressReport{Progress: models.Progress{Phase: phase, Percent: 90}})
			require.NoError(t, err)
		}
		report(models.PhaseGenerating)
		require.Nil(t, ask(t, s, other))

		report(models.PhaseUploading)

		require.NotNil(t, ask(t, s, other))
		require.Equal(t, models.JobCompleting, s.Reload(t, granted.Job.ID).Status)
		s.RequireInvariants(t)

		_, err = s.Attempts.Release(t.Context(), w, jobstest.FenceOf(granted), models.FailWorkerLost)
		require.NoError(t, err)
		hosted(t, s, "second")
		require.Nil(t, ask(t, s, hostedWorker(t, s, "second", "a", 0)), "it is paid by the other account")
		again := ask(t, s, hostedWorker(t, s, "hosted", "c", 0))
		require.NotNil(t, again)
		require.Equal(t, granted.Job.ID, again.Job.ID)
	})

	t.Run("AreNotGivenWhileMoreRunThanALoweredLimitAllows", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := hosted(t, s, "hosted")
		for range 5 {
			s.Submit(t)
		}
		var leases []*lease.Lease
		var workers []jobs.Principal
		for slot := range 3 {
			workers = append(workers, hostedWorker(t, s, "hosted", "a", slot))
			leases = append(leases, ask(t, s, workers[slot]))
			require.NotNil(t, leases[slot])
		}
		limits := capacity.UsualLimits("kling")
		limits.Concurrent = 2
		require.NoError(t, capacity.SetProviderLimits(t.Context(), s.DB, map[models.PoolID]capacity.ProviderLimits{pool.ID: limits}))

		other := hostedWorker(t, s, "hosted", "b", 0)
		require.Nil(t, ask(t, s, other), "three run, and two may")
		fail(t, s, workers[0], leases[0], models.FailInvalidInput)
		require.Nil(t, ask(t, s, other), "two run, and two may")
		fail(t, s, workers[1], leases[1], models.FailInvalidInput)
		require.NotNil(t, ask(t, s, other))
		use, err := capacity.ListProviderUse(t.Context(), s.DB, []models.PoolID{pool.ID})
		require.NoError(t, err)
		require.Equal(t, 2, use[0].Slots)
	})

	t.Run("ExpireAfterTenMinutesIfNobodyKnowsOfTheWork", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := hosted(t, s, "hosted")
		s.Exec(t, "UPDATE provider_accounts SET concurrent = 1")
		s.Submit(t)
		s.Submit(t)
		w, other := hostedWorker(t, s, "hosted", "a", 0), hostedWorker(t, s, "hosted", "b", 0)
		granted := ask(t, s, w)
		_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"ref":"paid"}`)
		require.NoError(t, err)
		fail(t, s, w, granted, models.FailInvalidInput)
		slots, err := capacity.ListProviderSlots(t.Context(), s.DB, pool.ID)
		require.NoError(t, err)
		require.Len(t, slots, 1)
		require.WithinDuration(t, slots[0].TakenAt.Add(600*time.Second), slots[0].ExpiresAt, testrun.WaitLimit)
		require.Nil(t, ask(t, s, other), "the provider may still work on it")

		s.Exec(t, "UPDATE provider_slots SET expires_at = clock_timestamp() - interval '1 second'")

		require.NotNil(t, ask(t, s, other))
	})

	t.Run("AreNotGivenWhileTheCircuitIsOpen", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := hosted(t, s, "hosted")
		s.Submit(t)
		s.Exec(t, "UPDATE provider_accounts SET open_since = now(), open_until = now() + interval '1 minute', reason = 'down'")
		w := hostedWorker(t, s, "hosted", "a", 0)
		require.Nil(t, ask(t, s, w))
		use, err := capacity.ListProviderUse(t.Context(), s.DB, []models.PoolID{pool.ID})
		require.NoError(t, err)
		require.Equal(t, capacity.ProviderOpen, use[0].State())
		s.Exec(t, "UPDATE provider_accounts SET open_until = now() - interval '1 second'")
		require.NotNil(t, ask(t, s, w), "one job tries")
		s.Submit(t)
		require.Nil(t, ask(t, s, hostedWorker(t, s, "hosted", "a", 1)), "no other does")
	})

	t.Run("AreTriedByAnotherJobAfterOneThatTheProviderRefused", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := hosted(t, s, "hosted")
		forbidden, good := s.Submit(t), s.Submit(t)
		w := hostedWorker(t, s, "hosted", "a", 0)
		accounts := &provideraccounts.Accounts{DB: s.DB}
		tell := func(means provider.Meaning, status int) {
			t.Helper()
			require.NoError(t, accounts.Tell(t.Context(), s.Enrolment, provideraccounts.Outcome{
				Pool: "hosted", Means: string(means), Status: status, Known: true, Text: "no such model for you",
			}))
		}
		refuse := func() (wait time.Duration) {
			t.Helper()
			granted := ask(t, s, w)
			require.NotNil(t, granted)
			require.Equal(t, forbidden.ID, granted.Job.ID)
			tell(provider.KeyRefused, 403)
			_, err := s.Attempts.Release(t.Context(), w, jobstest.FenceOf(granted), models.FailPreempted)
			require.NoError(t, err)
			s.RequireInvariants(t)
			require.Zero(t, s.Count(t, "provider_slots"))
			account, err := capacity.GetProviderAccount(t.Context(), s.DB, pool.ID)
			require.NoError(t, err)
			job := s.Reload(t, forbidden.ID)
			require.Equal(t, models.JobScheduled, job.Status)
			require.Zero(t, job.Failures)
			return job.RunAt.Sub(account.OpenUntil)
		}
		due := func() {
			t.Helper()
			s.Exec(t, "UPDATE provider_accounts SET open_until = clock_timestamp() - interval '1 second' WHERE open_until IS NOT NULL")
		}

		require.InDelta(t, time.Minute, refuse(), float64(time.Millisecond))
		due()
		granted := ask(t, s, w)
		require.NotNil(t, granted)
		require.Equal(t, good.ID, granted.Job.ID, "the one trial is another job's")
		tell("", 200)
		account, err := capacity.GetProviderAccount(t.Context(), s.DB, pool.ID)
		require.NoError(t, err)
		require.True(t, account.OpenSince.IsZero())
		fail(t, s, w, granted, models.FailInvalidInput)

		for _, minutes := range []int{2, 4, 8, 15, 15} {
			due()
			s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp() - interval '1 second' WHERE id = ?", forbidden.ID)
			_, err := s.Releaser.Due(t.Context())
			require.NoError(t, err)
			require.InDelta(t, time.Duration(minutes)*time.Minute, refuse(), float64(time.Millisecond))
		}
	})

	t.Run("AreNotPaidAgainByItselfIfAProviderHasTheWork", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Exec(t, "UPDATE provider_accounts SET on_unknown = 'PAY_AGAIN'")
		s.Submit(t)
		w := hostedWorker(t, s, "hosted", "a", 0)
		granted := ask(t, s, w)
		handle := `{"kind":"kling","key":"k","ref":"paid","account":"another"}`
		_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), handle)
		require.NoError(t, err)

		job := fail(t, s, w, granted, models.FailSubmitUnknown)

		require.Equal(t, models.JobScheduled, job.Status)
		require.True(t, job.SubmitUnknown())
		require.Equal(t, handle, job.Handle)
	})

	t.Run("WaitForADecisionAboutASubmitThatWasNotAnswered", func(t *testing.T) {
		t.Parallel()
		for policy, want := range map[capacity.UnknownSubmit]models.JobStatus{
			capacity.UnknownWait: models.JobScheduled, capacity.UnknownGiveUp: models.JobFailed, capacity.UnknownPayAgain: models.JobQueued,
		} {
			s := jobstest.New(t)
			hosted(t, s, "hosted")
			s.Exec(t, "UPDATE provider_accounts SET on_unknown = ?", policy)
			job := s.Submit(t)
			w := hostedWorker(t, s, "hosted", "a", 0)
			granted := ask(t, s, w)
			_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"key":"k"}`)
			require.NoError(t, err)
			ended := fail(t, s, w, granted, models.FailSubmitUnknown)
			require.Equal(t, want, ended.Status, policy)
			_, err = s.Operator.DecideSubmit(t.Context(), s.Client, job.ID, operate.PayAgain)
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			if policy != capacity.UnknownWait {
				_, err := s.Operator.DecideSubmit(t.Context(), s.Admin, job.ID, operate.PayAgain)
				jobstest.RequireCode(t, err, apierror.CodeConflict)
				continue
			}
			reasons, err := s.WaitingFor(t, job.ID)
			require.NoError(t, err)
			require.Equal(t, "SUBMIT_UNKNOWN", string(reasons[job.ID][0].Code))
			_, err = s.Operator.DecideSubmit(t.Context(), s.Admin, job.ID, "PERHAPS")
			jobstest.RequireCode(t, err, apierror.CodeInvalidInput)
			decided, err := s.Operator.DecideSubmit(t.Context(), s.Admin, job.ID, operate.PayAgain)
			require.NoError(t, err)
			require.Equal(t, models.JobQueued, decided.Status)
			require.Empty(t, decided.Handle)
			again := ask(t, s, w)
			require.NotNil(t, again)
			_, err = s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(again), `{"key":"k2"}`)
			require.NoError(t, err)
			fail(t, s, w, again, models.FailSubmitUnknown)
			given, err := s.Operator.DecideSubmit(t.Context(), s.Admin, job.ID, operate.GiveUp)
			require.NoError(t, err)
			require.Equal(t, models.JobFailed, given.Status)
			require.Equal(t, models.FailSubmitUnknown, given.FailureClass)
		}
	})

	t.Run("KeepTheWorkWhoseFilmCouldNotBeFetched", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Submit(t)
		s.Exec(t, "UPDATE jobs SET max_attempts = 3")
		w := hostedWorker(t, s, "hosted", "a", 0)
		for attempt := range 3 {
			granted := ask(t, s, w)
			require.NotNil(t, granted, "attempt %d", attempt+1)
			if attempt == 0 {
				_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"ref":"paid"}`)
				require.NoError(t, err)
			} else {
				require.JSONEq(t, `{"ref":"paid"}`, granted.Job.Handle, "the next attempt adopts the work")
			}
			delay := 30 << attempt
			end, err := s.Attempts.Fail(t.Context(), w, jobstest.FenceOf(granted), lease.Failure{
				Class: models.FailProvider, Message: "The video is paid, but could not be fetched.", RetryAfterSeconds: &delay})
			require.NoError(t, err)
			if attempt == 2 {
				require.Equal(t, models.JobFailed, end.Job.Status, "it counts")
				break
			}
			require.Equal(t, models.JobScheduled, end.Job.Status)
			require.GreaterOrEqual(t, end.Job.RunAt.Sub(end.Job.UpdatedAt), time.Duration(delay)*time.Second)
			s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp()")
			queued, err := s.Releaser.Due(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, queued)
		}
	})

	t.Run("AreNotPaidAgainForABadFilm", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		hosted(t, s, "hosted")
		s.Submit(t)
		w := hostedWorker(t, s, "hosted", "a", 0)
		granted := ask(t, s, w)
		_, err := s.Attempts.StoreHandle(t.Context(), w, jobstest.FenceOf(granted), `{"ref":"paid"}`)
		require.NoError(t, err)

		failed := fail(t, s, w, granted, models.FailDefectiveResult)

		require.Equal(t, models.JobFailed, failed.Status)
		require.Nil(t, ask(t, s, w))
	})
}
