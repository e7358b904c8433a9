package operate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestHalt(t *testing.T) {
	t.Parallel()

	leases := []models.HaltTarget{models.HaltLeases}
	for name, lose := range jobstest.LoseIndex {
		t.Run("GivesNoJobWhileLeasesAreHalted"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			one, two := s.Worker(t, "one"), s.Worker(t, "two")
			s.Submit(t)
			running := jobstest.LeaseNext(t, s, one)
			halts, err := s.Operator.Halt(t.Context(), s.Admin, leases, " the storage is moved ")
			require.NoError(t, err)
			again, err := s.Operator.Halt(t.Context(), s.Admin, models.HaltTargets, "everything")
			require.NoError(t, err)
			waiting := s.Submit(t)
			critical := jobstest.SubmitAs(t, s, s.Admin, func(in *submit.Submission) { in.Tier = models.TierCritical })
			lose(s)

			require.Equal(t, "test ADMIN", halts[0].By)
			require.Equal(t, "the storage is moved", again[1].Reason, "it keeps the first reason")
			require.Len(t, again, 2)
			require.Nil(t, jobstest.LeaseNext(t, s, two))
			_, err = s.Attempts.Heartbeat(t.Context(), one, jobstest.FenceOf(running), nil)
			require.NoError(t, err)
			why, err := s.WaitingFor(t, waiting.ID)
			require.NoError(t, err)
			require.Regexp(t, `^An operator has halted the starts of all jobs since .* UTC: the storage is moved\.$`, why[waiting.ID][0].Message)
			s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '1 hour' WHERE status = 'QUEUED'")
			promoted, err := s.Promoter.Promote(t.Context())
			require.NoError(t, err)
			require.Zero(t, promoted)
			s.RequireInvariants(t)

			left, err := s.Operator.Resume(t.Context(), s.Admin, leases)
			require.NoError(t, err)
			require.Equal(t, []models.HaltTarget{models.HaltSchedules}, []models.HaltTarget{left[0].What})
			require.Equal(t, critical.ID, jobstest.LeaseNext(t, s, two).Job.ID)
		})
	}

	t.Run("GivesJobsToAllCallsThatWaitOnceOneHasLooked", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		_, err := s.Operator.Halt(t.Context(), s.Admin, leases, "a migration")
		require.NoError(t, err)
		const workers = 5
		got := make(chan *lease.Lease, workers)
		for i := range workers {
			worker := s.Worker(t, fmt.Sprint(i))
			s.Submit(t)
			go func() {
				lease, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
				got <- lease
			}()
		}
		testrun.Eventually(t, "the calls wait", func() bool { return s.Notifier.Waiters.Waiting() == workers })

		s.Exec(t, "DELETE FROM halts") // as another process does; this one looks every second
		s.Notifier.Waiters.Look()

		seen := map[models.JobID]bool{}
		for range workers {
			lease := testrun.Receive(t, "a lease", got)
			require.NotNil(t, lease)
			seen[lease.Job.ID] = true
		}
		require.Len(t, seen, workers)
	})

	t.Run("RefusesInvalidInput", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for _, reason := range []string{"", "  ", strings.Repeat("x", 201), "a\x1bb"} {
			_, err := s.Operator.Halt(t.Context(), s.Admin, leases, reason)
			jobstest.RequireInvalid(t, err, "reason")
		}
		for _, what := range [][]models.HaltTarget{nil, {"EVERYTHING"}, {"LEASES", "LEASES", "LEASES"}} {
			_, err := s.Operator.Halt(t.Context(), s.Admin, what, "why")
			jobstest.RequireInvalid(t, err, "what")
			_, err = s.Operator.Resume(t.Context(), s.Admin, what)
			jobstest.RequireInvalid(t, err, "what")
		}
		_, err := s.Operator.Halt(t.Context(), s.Client, leases, "why")
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, err = s.Operator.Resume(t.Context(), s.Client, leases)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
		_, err = s.Reads.Queues.Halts(t.Context(), s.Client)
		jobstest.RequireCode(t, err, apierror.CodeForbidden)
	})
}
