package operate_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/postgres"
	"github.com/stretchr/testify/require"
)

// passes lets time pass: everything that has happened to queues and jobs was that much earlier.
func passes(t testing.TB, s *jobstest.Stack, d time.Duration) {
	t.Helper()
	s.Exec(t, `UPDATE jobs SET queued_at = queued_at - d, created_at = created_at - d, leased_at = leased_at - d, delayed_at = delayed_at - d, run_at = run_at - d
		FROM make_interval(secs => ?) d`, d.Seconds())
	s.Exec(t, "UPDATE queue_closures SET began_at = began_at - d, ended_at = ended_at - d FROM make_interval(secs => ?) d", d.Seconds())
}

func TestPausesAreNoWaits(t *testing.T) {
	t.Parallel()
	const free, pro, enterprise = models.TierFree, models.TierPro, models.TierEnterprise

	submit := func(t *testing.T, s *jobstest.Stack, tier models.Tier) *models.Job {
		t.Helper()
		return jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = tier })
	}
	pause := func(t *testing.T, s *jobstest.Stack, lane models.Tier, model string) {
		t.Helper()
		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, lane, model, "storage")
		require.NoError(t, err)
	}
	resume := func(t *testing.T, s *jobstest.Stack, lane models.Tier, model string) {
		t.Helper()
		_, err := s.Operator.ResumeQueue(t.Context(), s.Admin, lane, model)
		require.NoError(t, err)
	}
	promoted := func(t *testing.T, s *jobstest.Stack) int {
		t.Helper()
		n, err := s.Promoter.Promote(t.Context())
		require.NoError(t, err)
		return n
	}
	queue := func(t *testing.T, s *jobstest.Stack, lane models.Tier) backlog.QueueCount {
		t.Helper()
		queues, err := s.Reads.Queues.Counts(t.Context())
		require.NoError(t, err)
		for _, q := range queues {
			if q.Lane == lane && q.Model != "" {
				return q
			}
		}
		return backlog.QueueCount{}
	}

	t.Run("ForPromotion", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			stop, start func(*testing.T, *jobstest.Stack)
		}{
			"pause of the lane": {
				func(t *testing.T, s *jobstest.Stack) { pause(t, s, pro, "") }, func(t *testing.T, s *jobstest.Stack) { resume(t, s, pro, "") },
			},
			"pause of the model": {
				func(t *testing.T, s *jobstest.Stack) { pause(t, s, pro, "testcard") },
				func(t *testing.T, s *jobstest.Stack) { resume(t, s, pro, "testcard") },
			},
			"halt": {func(t *testing.T, s *jobstest.Stack) {
				_, err := s.Operator.Halt(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases}, "storage")
				require.NoError(t, err)
			}, func(t *testing.T, s *jobstest.Stack) {
				_, err := s.Operator.Resume(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases})
				require.NoError(t, err)
			}},
			"pause and halt that overlap": {func(t *testing.T, s *jobstest.Stack) {
				pause(t, s, pro, "")
				pause(t, s, pro, "testcard")
				_, err := s.Operator.Halt(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases}, "storage")
				require.NoError(t, err)
			}, func(t *testing.T, s *jobstest.Stack) {
				resume(t, s, pro, "")
				resume(t, s, pro, "testcard")
				_, err := s.Operator.Resume(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases})
				require.NoError(t, err)
			}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := jobstest.New(t)
				job := submit(t, s, pro)
				passes(t, s, 6*time.Minute)
				c.stop(t, s)
				passes(t, s, 11*time.Minute)
				c.start(t, s)

				require.Zero(t, promoted(t, s), "it has waited 6 of 10 minutes")
				passes(t, s, 3*time.Minute)
				require.Zero(t, promoted(t, s))
				passes(t, s, 2*time.Minute)
				require.Equal(t, 1, promoted(t, s))
				require.Equal(t, enterprise, s.Reload(t, job.ID).Lane)
				s.RequireInvariants(t)
			})
		}
	})

	t.Run("OfAnotherLaneOrModelOrAnEarlierOneCount", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pause(t, s, pro, "")
		passes(t, s, time.Hour)
		resume(t, s, pro, "")
		pause(t, s, free, "")
		submit(t, s, pro)
		passes(t, s, 11*time.Minute)

		require.Equal(t, 1, promoted(t, s))
	})

	t.Run("NorMoveJobsIntoAPausedLane", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		submit(t, s, pro)
		pause(t, s, enterprise, "")
		passes(t, s, 11*time.Minute)

		require.Zero(t, promoted(t, s), "it would not start there")
		resume(t, s, enterprise, "")
		require.Equal(t, 1, promoted(t, s))
	})

	t.Run("AlsoAfterTheJobMovedToAnotherLane", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := submit(t, s, free)
		passes(t, s, 10*time.Minute)
		pause(t, s, free, "")
		passes(t, s, time.Hour)
		resume(t, s, free, "")
		passes(t, s, 6*time.Minute)
		require.Equal(t, 1, promoted(t, s), "after 16 of 15 minutes")
		passes(t, s, 8*time.Minute)
		pause(t, s, pro, "")
		passes(t, s, time.Hour)
		resume(t, s, pro, "")

		require.Zero(t, promoted(t, s), "after 24 of 25 minutes, with two pauses")
		passes(t, s, 2*time.Minute)
		require.Equal(t, 1, promoted(t, s))

		now, err := postgres.Now(t.Context(), s.DB)
		require.NoError(t, err)
		times := s.Reload(t, job.ID).Time(now, 0)
		require.InDelta(t, 2*3600+26*60, times.TotalSeconds, 60)
		require.InDelta(t, 2*3600, times.PausedSeconds, 60)
		require.InDelta(t, 26*60, times.QueuedSeconds, 60)
	})

	t.Run("InTheFiguresOfWaits", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		job := submit(t, s, pro)
		worker := s.Worker(t, "one")
		passes(t, s, 20*time.Second)
		pause(t, s, pro, "")
		passes(t, s, 11*time.Minute)
		require.InDelta(t, 20, *queue(t, s, pro).OldestWaitSeconds, 10)
		resume(t, s, pro, "")
		passes(t, s, 10*time.Second)
		require.InDelta(t, 30, *queue(t, s, pro).OldestWaitSeconds, 10)
		late, err := backlog.ListLateJobs(t.Context(), s.DB, []models.Tier{pro}, []time.Duration{2 * time.Minute})
		require.NoError(t, err)
		require.Empty(t, late, "nothing gives way to a job whose queue was paused")

		s.Lease(t, worker)

		leased := s.Reload(t, job.ID)
		require.InDelta(t, 30, *leased.WaitedSeconds, 10)
		require.InDelta(t, 11*60, leased.PausedSeconds, 5)
		require.InDelta(t, 11*60+30, *leased.QueuedSeconds, 10, "it was queued all the time")
		waits, err := s.Reads.Queues.Waits(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, waits)
		require.InDelta(t, 30, waits[0].P95, 10)
	})

	t.Run("ApartFromPromotedJobs", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		submit(t, s, pro)
		passes(t, s, 11*time.Minute)
		require.Equal(t, 1, promoted(t, s))
		submit(t, s, enterprise)
		worker := s.Worker(t, "one")

		q := queue(t, s, enterprise)
		require.Equal(t, []int{2, 1}, []int{q.Depth, q.Promoted})
		require.Less(t, *q.OldestWaitSeconds, 60.0, "the lane's own job has just come")
		require.InDelta(t, 11*60, *q.PromotedWaitSeconds, 60)

		for range 2 {
			granted, fence := s.Lease(t, worker)
			_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailContentPolicy, Message: string(granted.Job.ID)})
			require.NoError(t, err)
		}
		waits, err := s.Reads.Queues.Waits(t.Context())
		require.NoError(t, err)
		p95 := map[models.Tier]float64{}
		for _, w := range waits {
			p95[w.Lane] = w.P95
		}
		require.Less(t, p95[enterprise], 60.0)
		require.InDelta(t, 11*60, p95[pro], 60, "the promoted job's wait is one of its tier")
	})
}

func TestJobTime(t *testing.T) {
	t.Parallel()
	s := jobstest.New(t)
	begun := time.Now()
	requireLasts := func(want, got float64, part string) { // what the test itself takes lies in some part
		t.Helper()
		require.GreaterOrEqual(t, got, want-1, part)
		require.LessOrEqual(t, got, want+1+time.Since(begun).Seconds(), part)
	}
	worker := s.Worker(t, "one")
	job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierPro })
	passes(t, s, 10*time.Second)
	_, fence := s.Lease(t, worker)
	passes(t, s, 20*time.Second)
	_, err := s.Attempts.Fail(t.Context(), worker, fence, lease.Failure{Class: models.FailTransient, Message: "no"})
	require.NoError(t, err)
	require.Equal(t, models.JobScheduled, s.Reload(t, job.ID).Status)
	passes(t, s, 5*time.Minute)
	_, err = s.Releaser.Due(t.Context())
	require.NoError(t, err)
	_, err = s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "", "")
	require.NoError(t, err)
	passes(t, s, 40*time.Second)

	read := func() *models.JobTime {
		rows := []*models.Job{s.Reload(t, job.ID)}
		times, err := s.EdgesOf(t, rows...).Times(t.Context())
		require.NoError(t, err)
		require.NotNil(t, times[job.ID])
		summaries, err := wire.New(s.Reads).OfJobs(t.Context(), jobs.Host, rows, "http://x", time.Hour)
		require.NoError(t, err)
		if rows[0].CompletedAt.IsZero() {
			require.Nil(t, summaries[0].Time, "the summary of a job that has not ended stays as it is")
		} else {
			require.Equal(t, wire.TimeSpent(*times[job.ID]), *summaries[0].Time)
		}
		return times[job.ID]
	}
	got := read()
	for name, part := range map[string][2]float64{
		"queued": {got.QueuedSeconds, 10}, "held": {got.HeldSeconds, 20}, "backoff": {got.BackoffSeconds, 300}, "paused": {got.PausedSeconds, 40},
		"delayed": {got.DelayedSeconds, 0}, "total": {got.TotalSeconds, 370},
	} {
		requireLasts(part[1], part[0], name)
	}
	require.InDelta(t, got.TotalSeconds, got.QueuedSeconds+got.HeldSeconds+got.BackoffSeconds+got.PausedSeconds+got.DelayedSeconds, 0.01)

	_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
	require.NoError(t, err)
	ended := s.Reload(t, job.ID)
	got = read()
	require.InDelta(t, ended.CompletedAt.Sub(ended.CreatedAt).Seconds(), got.TotalSeconds, 1, "the parts add up to the whole")
	requireLasts(40, got.PausedSeconds, "paused")
}
