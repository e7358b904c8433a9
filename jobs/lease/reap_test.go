package lease_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestReap(t *testing.T) {
	t.Parallel()

	t.Run("RequeuesTheJobAndMarksAttemptAndWorkerLost", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		s.ExpireLease(t, fence.AttemptID)

		reaped, err := s.Reaper.Reap(t.Context())

		require.NoError(t, err)
		require.Equal(t, 1, reaped)
		attempt, err := models.GetAttempt(t.Context(), s.DB, fence.AttemptID)
		require.NoError(t, err)
		require.Equal(t, models.AttemptLost, attempt.Status)
		require.Equal(t, models.FailWorkerLost, attempt.FailureClass)
		stored := s.Reload(t, job.ID)
		require.Equal(t, models.JobQueued, stored.Status)
		require.True(t, stored.Requeued)
		require.Zero(t, stored.Failures)
		require.Equal(t, models.WorkerLost, jobstest.WorkerStatus(t, s, worker.WorkerID))
		require.Equal(t, []models.JobEventType{models.EventQueued, models.EventLeased, models.EventLost, models.EventRequeued},
			jobstest.EventTypes(t, s, job.ID))
		s.RequireInvariants(t)
	})

	t.Run("LetsALostWorkerComeBackWithItsNextCall", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		s.ExpireLease(t, fence.AttemptID)
		_, err := s.Reaper.Reap(t.Context())
		require.NoError(t, err)

		again := jobstest.LeaseNext(t, s, worker)

		require.Equal(t, job.ID, again.Job.ID)
		require.Equal(t, models.WorkerBusy, jobstest.WorkerStatus(t, s, worker.WorkerID))
		s.RequireInvariants(t)
	})

	t.Run("TakesEachLeaseBackOnceInManyProcesses", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		const held = 12
		for i := range held {
			s.Submit(t)
			_, fence := s.Lease(t, s.Worker(t, fmt.Sprint(i)))
			if i > 0 {
				s.ExpireLease(t, fence.AttemptID)
			}
		}

		reaped := make([]int, 6)
		errs := make([]error, 6)
		var passes sync.WaitGroup
		for i := range reaped {
			passes.Go(func() { reaped[i], errs[i] = s.Reaper.Reap(t.Context()) })
		}
		passes.Wait()

		sum := 0
		for i := range reaped {
			require.NoError(t, errs[i])
			sum += reaped[i]
		}
		require.Equal(t, held-1, sum, "the lease that has not run out stays")
		s.RequireInvariants(t)
	})

	t.Run("KeepsALeaseThatWasRenewedMeanwhile", func(t *testing.T) {
		t.Parallel()

		s, job, worker, fence := jobstest.Leased(t)
		_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)
		require.NoError(t, err)
		s.ExpireLease(t, fence.AttemptID)
		// The reaper has found the lease expired, and waits for a heartbeat's transaction.
		tx, err := s.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = models.LockWorker(t.Context(), tx, worker.WorkerID)
		require.NoError(t, err)
		done := make(chan error, 1)
		var reaped int
		go func() {
			var err error
			reaped, err = s.Reaper.Reap(t.Context())
			done <- err
		}()
		s.WaitForLocks(t, 1)

		hold := models.Fence{WorkerID: worker.WorkerID, AttemptID: fence.AttemptID, Token: fence.Token}
		extended, err := models.ExtendLeases(t.Context(), tx, []models.LeaseBeat{{Fence: hold}}, lease.LeaseTTL, lease.YieldWithin,
			models.Thinning{}, 0)
		require.NoError(t, err)
		require.Len(t, extended, 1)
		require.NoError(t, tx.Commit())

		require.NoError(t, <-done)
		require.Zero(t, reaped)
		require.Equal(t, models.JobRunning, s.Reload(t, job.ID).Status)
	})
}

func TestSilent(t *testing.T) {
	t.Parallel()

	t.Run("EndsWorkersThatDoNotReport", func(t *testing.T) {
		t.Parallel()

		s, _, busy, _ := jobstest.Leased(t)
		idle, fresh, draining := s.Worker(t, "idle"), s.Worker(t, "fresh"), s.Worker(t, "draining")
		_, err := s.Registrar.DrainSelf(t.Context(), draining, draining.WorkerID, "", time.Time{})
		require.NoError(t, err)
		pool := jobstest.AddPool(t, s, 0, 1)
		boot := &models.Worker{
			ID: models.NewWorkerID(), PoolID: pool.ID, Provider: "fake", ProviderInstanceID: "slow",
			Offer:      models.Offer{Models: []string{"testcard"}, GPUType: "g", Region: "r", CapacityClass: models.CapacitySpot},
			WarmModels: []string{}, Status: models.WorkerBooting,
		}
		require.NoError(t, models.InsertWorker(t.Context(), s.DB, boot))
		s.Exec(t, "UPDATE workers SET last_heartbeat_at = clock_timestamp() - interval '91 seconds', created_at = clock_timestamp() - interval '11 minutes' WHERE id <> ?", fresh.WorkerID)

		ended, err := s.Reaper.Silent(t.Context())

		require.NoError(t, err)
		require.Equal(t, 3, ended)
		require.Equal(t, models.WorkerLost, jobstest.WorkerStatus(t, s, idle.WorkerID))
		require.Equal(t, models.WorkerLost, jobstest.WorkerStatus(t, s, draining.WorkerID))
		require.Equal(t, models.WorkerTerminated, jobstest.WorkerStatus(t, s, boot.ID))
		require.Equal(t, models.WorkerBusy, jobstest.WorkerStatus(t, s, busy.WorkerID), "a lease is the reaper's to take")
		require.Equal(t, models.WorkerIdle, jobstest.WorkerStatus(t, s, fresh.WorkerID))
		s.Submit(t)
		require.NotNil(t, jobstest.LeaseNext(t, s, idle), "it comes back with its own next call")
	})

	t.Run("SkipsAWorkerThatFailsToSave", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		first, second := s.Worker(t, "first"), s.Worker(t, "second")
		s.Exec(t, "ALTER TABLE workers ADD CONSTRAINT never_lost CHECK (provider_instance_id <> 'first' OR status <> 'LOST')")
		s.Exec(t, "UPDATE workers SET last_heartbeat_at = clock_timestamp() - interval '2 minutes'")

		ended, err := s.Reaper.Silent(t.Context())

		require.ErrorContains(t, err, "never_lost")
		require.Equal(t, 1, ended)
		require.Equal(t, models.WorkerIdle, jobstest.WorkerStatus(t, s, first.WorkerID))
		require.Equal(t, models.WorkerLost, jobstest.WorkerStatus(t, s, second.WorkerID))
	})
}

func TestRegister(t *testing.T) {
	t.Parallel()

	registration := func(instance string) fleet.Registration {
		return fleet.Registration{
			Provider: "static", ProviderInstanceID: instance, GPUCount: 1, Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"},
		}
	}

	t.Run("ReplacesTheWorkerInTheSameSlot", func(t *testing.T) {
		t.Parallel()

		s, job, old, fence := jobstest.Leased(t)

		fresh := s.Worker(t, "one")

		require.NotEqual(t, old.WorkerID, fresh.WorkerID)
		require.Equal(t, models.WorkerTerminated, jobstest.WorkerStatus(t, s, old.WorkerID))
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		_, err := s.Attempts.Heartbeat(t.Context(), old, fence, nil)
		require.ErrorIs(t, err, apierror.ErrLeaseLost)
		require.Equal(t, job.ID, jobstest.LeaseNext(t, s, fresh).Job.ID)
		s.RequireInvariants(t)
	})

	t.Run("RevokesTheOldToken", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, registration("one"))
		require.NoError(t, err)
		_, _, err = s.Registrar.Register(t.Context(), s.Enrolment, registration("one"))
		require.NoError(t, err)

		_, err = s.Keys.Authenticate(t.Context(), secret)

		require.ErrorIs(t, err, apierror.ErrUnauthenticated)
	})

	t.Run("RefusesAnotherEnrolmentKey", func(t *testing.T) {
		t.Parallel()

		s, _, worker, _ := jobstest.Leased(t)
		intruder := s.NewKey(t, s.Account, access.RoleWorker)
		before := s.Dump(t)

		_, _, err := s.Registrar.Register(t.Context(), intruder, registration("one"))
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, _, err = s.Registrar.Register(t.Context(), worker, registration("two"))
		jobstest.RequireCode(t, err, apierror.CodeForbidden)

		require.Equal(t, before, s.Dump(t))
	})

	t.Run("KeepsOneWorkerPerSlotOfConcurrentCalls", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		errs := make([]error, 8)
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() { _, _, errs[i] = s.Registrar.Register(t.Context(), s.Enrolment, registration("one")) })
		}
		calls.Wait()

		for _, err := range errs {
			if err != nil {
				jobstest.RequireCode(t, err, apierror.CodeConflict)
			}
		}
		var live int
		require.NoError(t, s.DB.NewRaw("SELECT count(*) FROM workers WHERE status <> 'TERMINATED'").Scan(t.Context(), &live))
		require.Equal(t, 1, live)
	})

	t.Run("RefusesInvalidInput", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		before := s.Dump(t)
		for field, spoil := range map[string]func(*fleet.Registration){
			"provider":           func(in *fleet.Registration) { in.Provider = "" },
			"providerInstanceId": func(in *fleet.Registration) { in.ProviderInstanceID = "a\x00" },
			"region":             func(in *fleet.Registration) { in.Region = string(make([]byte, 300)) },
			"gpuType":            func(in *fleet.Registration) { in.GPUType = "\xff" },
			"zone":               func(in *fleet.Registration) { in.Zone = "\n" },
			"slot":               func(in *fleet.Registration) { in.Slot = -1 },
			"gpuCount":           func(in *fleet.Registration) { in.GPUCount = 0 },
			"gpuMemoryBytes":     func(in *fleet.Registration) { in.GPUMemoryBytes = new(int64(-1)) },
			"models":             func(in *fleet.Registration) { in.Models = nil },
			"warmModels":         func(in *fleet.Registration) { in.WarmModels = []string{"un\x00heard"} },
		} {
			in := registration("one")
			spoil(&in)
			_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)
			require.Error(t, err, field)
			jobstest.RequireInvalid(t, err, field)
		}
		in := registration("one")
		for pool, code := range map[models.PoolID]apierror.Code{
			"pol_1": apierror.CodeInvalidInput, models.NewPoolID(): apierror.CodeNotFound, "not-made-yet": apierror.CodeUnavailable,
		} {
			in.PoolID = pool
			_, _, err := s.Registrar.Register(t.Context(), s.Enrolment, in)
			jobstest.RequireCode(t, err, code)
		}
		require.Equal(t, before, s.Dump(t))
	})
}

func TestTerminateWorker(t *testing.T) {
	t.Parallel()

	t.Run("KillsTheMachineAndRequeuesTheJob", func(t *testing.T) {
		t.Parallel()

		s, job, worker, _ := jobstest.Leased(t)
		provider := jobstest.NewFakeProvider("one")
		s.Fleet.Providers["static"] = provider
		s.Exec(t, "UPDATE workers SET pool_id = ?", jobstest.AddPool(t, s, 0, 1).ID)

		ended, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, worker.WorkerID)

		require.NoError(t, err)
		require.Equal(t, models.WorkerTerminated, ended.Status)
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Empty(t, provider.Running)
		s.RequireInvariants(t)
		again, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, worker.WorkerID)
		require.NoError(t, err)
		require.Equal(t, ended.EndedAt, again.EndedAt)
		_, err = s.Fleet.DrainWorker(t.Context(), s.Admin, worker.WorkerID, 0)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	})

	t.Run("IsForOperators", func(t *testing.T) {
		t.Parallel()

		s, _, worker, _ := jobstest.Leased(t)
		before := s.Dump(t)
		for _, p := range []jobs.Principal{s.Client, s.Enrolment, worker} {
			_, err := s.Fleet.TerminateWorker(t.Context(), p, worker.WorkerID)
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Fleet.DrainWorker(t.Context(), p, worker.WorkerID, 0)
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Fleet.PreemptWorker(t.Context(), p, worker.WorkerID, 0)
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
		}
		for _, id := range []models.WorkerID{"wrk_1", models.NewWorkerID()} {
			_, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, id)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
			_, err = s.Fleet.DrainWorker(t.Context(), s.Admin, id, 0)
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		_, err := s.Fleet.DrainWorker(t.Context(), s.Admin, worker.WorkerID, -1)
		jobstest.RequireInvalid(t, err, "deadlineSeconds")
		_, err = s.Fleet.PreemptWorker(t.Context(), s.Admin, worker.WorkerID, 0)
		jobstest.RequireCode(t, err, apierror.CodeConflict)
		require.Equal(t, before, s.Dump(t))
	})
}
