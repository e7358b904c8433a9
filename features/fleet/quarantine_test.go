package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// ask asks once for a job, and returns it or nil.
func ask(t *testing.T, s *jobstest.Stack, worker jobs.Principal) *lease.Lease {
	t.Helper()
	lease, _, err := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID})
	require.NoError(t, err)
	return lease
}

// crash lets the models of new jobs crash on a worker, and on no other.
func crash(t *testing.T, s *jobstest.Stack, worker jobs.Principal, n int) {
	t.Helper()
	for range n {
		job := s.Submit(t)
		crashNext(t, s, worker)
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
	}
}

// crashNext lets the model of the next job crash on a worker.
func crashNext(t *testing.T, s *jobstest.Stack, worker jobs.Principal) {
	t.Helper()
	_, fence := s.Lease(t, worker)
	_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailModelCrash, Message: "segmentation fault"})
	require.NoError(t, err)
}

func quarantiner(s *jobstest.Stack, providers map[string]fleet.Provider) *fleet.Quarantiner {
	return &fleet.Quarantiner{DB: s.DB, Notifier: s.Notifier, Providers: providers}
}

// judgeOnce runs a round and returns how many hosts it quarantined.
func judgeOnce(t *testing.T, q *fleet.Quarantiner) int {
	t.Helper()
	n, err := q.Pass(t.Context())
	require.NoError(t, err)
	return n
}

func TestQuarantine(t *testing.T) {
	t.Parallel()

	t.Run("KeepsJobsFromAHost", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		bad := s.Worker(t, "bad")
		w, err := s.Fleet.QuarantineWorker(t.Context(), s.Admin, bad.WorkerID, 30, "its fans are loud")
		require.NoError(t, err)
		require.Equal(t, "its fans are loud", w.QuarantineReason)
		require.WithinDuration(t, time.Now().Add(30*time.Minute), w.QuarantinedUntil, 5*time.Minute)
		job := s.Submit(t)

		require.Nil(t, ask(t, s, bad))
		again := s.Worker(t, "bad")
		require.NotEqual(t, bad.WorkerID, again.WorkerID)
		require.Nil(t, ask(t, s, again), "also of an agent that registers there meanwhile")
		reasons, err := s.WaitingFor(t, job.ID)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(reasons), "1 worker that can run it is quarantined after failures, and no pool can start more.")

		require.NotNil(t, ask(t, s, s.Worker(t, "good")))
		s.Submit(t)
		require.Nil(t, ask(t, s, again))
		w, err = s.Fleet.ReleaseQuarantine(t.Context(), s.Admin, again.WorkerID)
		require.NoError(t, err)
		require.Zero(t, w.QuarantinedUntil)
		require.NotNil(t, ask(t, s, again))
		written := s.Count(t, "audit_log")
		_, err = s.Fleet.ReleaseQuarantine(t.Context(), s.Admin, again.WorkerID)
		require.NoError(t, err)
		require.Equal(t, written, s.Count(t, "audit_log"), "once more does nothing")
	})

	t.Run("EndsByItself", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		_, err := s.Fleet.QuarantineWorker(t.Context(), s.Admin, worker.WorkerID, 1, "a look")
		require.NoError(t, err)
		s.Submit(t)
		require.Nil(t, ask(t, s, worker))

		s.Exec(t, "UPDATE workers SET quarantined_until = clock_timestamp() - interval '1 second'")

		require.NotNil(t, ask(t, s, worker))
	})

	t.Run("LetsARunningJobGoOn", func(t *testing.T) {
		t.Parallel()
		s, _, worker, fence := jobstest.Leased(t)
		_, err := s.Fleet.QuarantineWorker(t.Context(), s.Admin, worker.WorkerID, 5, "a look")
		require.NoError(t, err)

		answer, err := s.Attempts.Heartbeat(t.Context(), worker, fence, nil)

		require.NoError(t, err)
		require.Equal(t, lease.DirectContinue, answer.Directive.Action)
	})

	t.Run("RefusesBadInput", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		before := s.Dump(t)
		for _, minutes := range []int{-1, 0, 43_201} {
			_, err := s.Fleet.QuarantineWorker(t.Context(), s.Admin, worker.WorkerID, minutes, "why")
			jobstest.RequireInvalid(t, err, "minutes")
		}
		for _, reason := range []string{"", "a\nb", strings.Repeat("x", 10_000)} {
			_, err := s.Fleet.QuarantineWorker(t.Context(), s.Admin, worker.WorkerID, 5, reason)
			jobstest.RequireInvalid(t, err, "reason")
		}
		for _, p := range []jobs.Principal{s.Client, s.Enrolment, worker} {
			_, err := s.Fleet.QuarantineWorker(t.Context(), p, worker.WorkerID, 5, "why")
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
			_, err = s.Fleet.ReleaseQuarantine(t.Context(), p, worker.WorkerID)
			jobstest.RequireCode(t, err, apierror.CodeForbidden)
		}
		for _, id := range []models.WorkerID{"", "wrk_1", models.NewWorkerID()} {
			_, err := s.Fleet.QuarantineWorker(t.Context(), s.Admin, id, 5, "why")
			jobstest.RequireCode(t, err, apierror.CodeNotFound)
		}
		require.Equal(t, before, s.Dump(t))
		_, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, worker.WorkerID)
		require.NoError(t, err)
		_, err = s.Fleet.QuarantineWorker(t.Context(), s.Admin, worker.WorkerID, 5, "why")
		jobstest.RequireCode(t, err, apierror.CodeConflict)
	})
}

func TestQuarantiner(t *testing.T) {
	t.Parallel()

	t.Run("QuarantinesAHostOnWhichModelsCrash", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		bad := s.Worker(t, "bad")
		s.Worker(t, "good")
		q := quarantiner(s, nil)
		crash(t, s, bad, 2)
		require.Zero(t, judgeOnce(t, q), "two jobs are not enough")
		crash(t, s, bad, 1)

		require.Equal(t, 1, judgeOnce(t, q))

		w, err := jobs.GetWorker(t.Context(), s.DB, bad.WorkerID)
		require.NoError(t, err)
		require.Equal(t, models.QuarantineCrashes, w.QuarantineCause)
		require.Contains(t, w.QuarantineReason, "The models of 3 jobs crashed here within an hour")
		require.Zero(t, judgeOnce(t, q), "it is judged once")
		s.Exec(t, "UPDATE quarantines SET until = clock_timestamp()")
		judgeOnce(t, q)
		crash(t, s, bad, 3)
		require.Equal(t, 1, judgeOnce(t, q))
		w, err = jobs.GetWorker(t.Context(), s.DB, bad.WorkerID)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(time.Hour), w.QuarantinedUntil, 10*time.Minute, "the second time is twice as long")
	})

	t.Run("BlamesNoHostForJobsThatCrashEverywhere", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		one, other := s.Worker(t, "one"), s.Worker(t, "other")
		for range 3 {
			s.Submit(t)
			crashNext(t, s, one)
		}
		s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp() - interval '1 second', avoid_until = NULL")
		_, err := (&pass.Releaser{DB: s.DB, Notifier: s.Notifier}).Due(t.Context())
		require.NoError(t, err)
		for range 3 {
			crashNext(t, s, other)
		}

		require.Zero(t, judgeOnce(t, quarantiner(s, nil)))
	})

	t.Run("LeavesAModelAWorkerToRunOn", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		for i := range 3 {
			crash(t, s, s.Worker(t, fmt.Sprint("m", i)), 3)
		}
		q := quarantiner(s, nil)

		require.Equal(t, 1, judgeOnce(t, q))
		require.Zero(t, judgeOnce(t, q), "one of the other two is no more than those in quarantine")

		alone := jobstest.New(t)
		crash(t, alone, alone.Worker(t, "only"), 3)
		require.Zero(t, judgeOnce(t, quarantiner(alone, nil)))
	})

	for name, c := range map[string]struct {
		sample models.GPUSample
		reason string // "" for no quarantine
	}{
		"HasAnErrorOfItsHardware": {models.GPUSample{Index: 1, Xid: new(79)}, "GPU 1 reported XID 79, an error of its hardware."},
		"HasMemoryErrors": {models.GPUSample{ECCUncorrected: new(int64(2))},
			"GPU 0 has had 2 memory errors that could not be corrected."},
		"HasAnErrorOfAProgramOnly": {models.GPUSample{Xid: new(31), ECCUncorrected: new(int64(0))}, ""},
	} {
		t.Run("QuarantinesAHostWhoseGPU"+name, func(t *testing.T) {
			t.Parallel()
			s, _, worker, fence := jobstest.Leased(t)
			_, err := s.Attempts.Heartbeat(t.Context(), worker, fence, []models.GPUSample{c.sample})
			require.NoError(t, err)
			q := quarantiner(s, nil)

			n := judgeOnce(t, q)

			w, err := jobs.GetWorker(t.Context(), s.DB, worker.WorkerID)
			require.NoError(t, err)
			require.Equal(t, c.reason, w.QuarantineReason)
			if c.reason == "" {
				require.Zero(t, n)
				return
			}
			require.Equal(t, 1, n)
			_, err = s.Fleet.ReleaseQuarantine(t.Context(), s.Admin, worker.WorkerID)
			require.NoError(t, err)
			require.Zero(t, judgeOnce(t, q), "an operator has released it")
			s.Exec(t, "UPDATE quarantines SET until = clock_timestamp() - interval '1 second'")
			require.Equal(t, 1, judgeOnce(t, q), "the error is still there")
		})
	}

	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprintf("ReplacesTheMachineUnlessItIsHeld/%v", held), func(t *testing.T) {
			t.Parallel()
			s, scaler, provider, pool := scaled(t, 0, 3)
			s.Exec(t, "UPDATE pools SET hold_on_failure = ?", held)
			provider.Running = []string{"one", "two"}
			workers := enrol(t, s, provider, pool)
			for _, worker := range workers {
				s.Exec(t, `INSERT INTO worker_gpus (worker_id, gpus, sampled_at) VALUES (?, '[{"index": 0, "xid": 79}]', clock_timestamp())`,
					worker.WorkerID)
			}

			require.Equal(t, 2, judgeOnce(t, quarantiner(s, map[string]fleet.Provider{"fake": provider})))

			states := []models.WorkerStatus{jobstest.WorkerStatus(t, s, workers[0].WorkerID), jobstest.WorkerStatus(t, s, workers[1].WorkerID)}
			if !held {
				require.Equal(t, []models.WorkerStatus{models.WorkerDraining, models.WorkerDraining}, states)
				return
			}
			require.ElementsMatch(t, []models.WorkerStatus{models.WorkerIdle, models.WorkerDraining}, states)
			s.Submit(t)
			require.NoError(t, scaler.Scale(t.Context()))
			require.Equal(t, 1, provider.Started, "the machine that is held does not serve")
			explained, err := s.Pools.Explain(t.Context(), s.Admin, pool.ID)
			require.NoError(t, err)
			require.Equal(t, 1, explained.Workers)
		})
	}
}
