package submit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// costs makes a worker one of a capacity class, at a price per hour.
func costs(t testing.TB, s *jobstest.Stack, instance string, class models.CapacityClass, price float64) jobs.Principal {
	t.Helper()
	w := s.Worker(t, instance)
	s.Exec(t, "UPDATE workers SET capacity_class = ?, price_per_hour_usd = ? WHERE id = ?", class, price, w.WorkerID)
	return w
}

// leased returns what a worker gets without waiting, or nil.
func leased(t testing.TB, s *jobstest.Stack, w jobs.Principal) *lease.Lease {
	t.Helper()
	l, _, err := s.Leaser.Lease(t.Context(), w, lease.LeaseCall{WorkerID: w.WorkerID})
	require.NoError(t, err)
	return l
}

// said returns the payload of a job's newest event.
func said(t testing.TB, s *jobstest.Stack, id models.JobID) map[string]any {
	t.Helper()
	var payload string
	require.NoError(t, s.DB.NewRaw("SELECT payload::text FROM job_events WHERE job_id = ? ORDER BY seq DESC LIMIT 1", id).Scan(t.Context(),
		&payload))
	var found map[string]any
	require.NoError(t, json.Unmarshal([]byte(payload), &found))
	return found
}

func TestMaxPreemptions(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	spot, safe := costs(t, s, "spot", models.CapacitySpot, 1), costs(t, s, "safe", models.CapacityOnDemand, 2)
	job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.MaxPreemptions = new(2) })
	ends := []func(lease.Fence) error{
		func(f lease.Fence) error {
			_, err := s.Attempts.Release(t.Context(), spot, f, models.FailPreempted)
			return err
		},
		func(f lease.Fence) error {
			s.ExpireLease(t, f.AttemptID)
			_, err := s.Reaper.Reap(t.Context())
			return err
		},
	}
	for n, end := range ends {
		lease := leased(t, s, spot)
		require.Equal(t, job.ID, lease.Job.ID)
		require.NoError(t, end(jobstest.FenceOf(lease)))
		require.Equal(t, n+1, s.Reload(t, job.ID).Preemptions)
	}

	require.Equal(t, map[string]any{
		"capacity": "ON_DEMAND", "reason": "moved to on-demand capacity: it was preempted 2 times, and its maxPreemptions is 2",
	}, said(t, s, job.ID))
	require.Nil(t, leased(t, s, spot), "it has had enough of spot workers")
	lease := leased(t, s, safe)
	require.Equal(t, job.ID, lease.Job.ID)
	_, err := s.Attempts.Release(t.Context(), safe, jobstest.FenceOf(lease), models.FailPreempted)
	require.NoError(t, err)
	require.Equal(t, 2, s.Reload(t, job.ID).Preemptions, "the loss of other workers does not count")
	_, err = s.Canceller.Cancel(t.Context(), s.Client, job.ID)
	require.NoError(t, err)
	again, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
	require.NoError(t, err)
	require.Equal(t, []any{0, models.Needs("")}, []any{again.Preemptions, again.Needs}, "a new run begins anywhere")
	require.NotNil(t, leased(t, s, spot))
	s.RequireInvariants(t)
}

func TestBearNothingInTheWay(t *testing.T) {
	t.Parallel()

	for name, lose := range map[string]bool{"with the index": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := jobstest.New(t)
			spot, safe, dear := costs(t, s, "spot", models.CapacitySpot, 1), costs(t, s, "safe", models.CapacityOnDemand, 2),
				costs(t, s, "dear", models.CapacityOnDemand, 3)
			var all []submit.Submission
			for i := range 200 { // none of them is for the spot worker
				in := jobstest.Submission()
				if i%2 == 0 {
					in.MaxPreemptions, in.MaxPricePerHour = new(0), new(2.0)
				} else {
					in.MaxPricePerHour = new(0.25 + float64(i)/400)
				}
				all = append(all, in)
			}
			made, err := s.Submitter.SubmitMany(t.Context(), s.Client, append(all, jobstest.Submission()))
			require.NoError(t, err)
			if lose {
				s.Index().Lose()
			}

			require.Equal(t, made[200].Job.ID, leased(t, s, spot).Job.ID)
			require.Equal(t, made[0].Job.ID, leased(t, s, safe).Job.ID)
			require.Nil(t, leased(t, s, dear), "nothing else may cost that much")
		})
	}
}

func TestFinishBy(t *testing.T) {
	t.Parallel()

	t.Run("MovesToOnDemandCapacityWithoutSlack", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		spot := costs(t, s, "spot", models.CapacitySpot, 1)
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(time.Hour)) })
		require.WithinRange(t, job.SlackUntil, job.FinishBy.Add(-10*time.Minute), job.FinishBy.Add(-slackReserve))
		late := func() { s.Exec(t, "UPDATE jobs SET finish_by = now() + interval '20 s', slack_until = now()") }
		look := func() int {
			n, err := s.Releaser.Slack(t.Context())
			require.NoError(t, err)
			return n
		}
		require.Zero(t, look())
		require.Equal(t, models.Needs("cheap"), s.Reload(t, job.ID).Needs)
		late()
		require.Equal(t, 1, look())
		require.Equal(t, models.Needs("now"), s.Reload(t, job.ID).Needs, "there is no other capacity")

		safe := costs(t, s, "safe", models.CapacityOnDemand, 2)
		late()
		require.Equal(t, 1, jobstest.Together(t, 4, s.Releaser.Slack))

		require.Equal(t, map[string]any{"lane": "ENTERPRISE", "capacity": "ON_DEMAND",
			"reason": "moved to on-demand capacity: its finishBy leaves no slack"}, said(t, s, job.ID))
		require.Nil(t, leased(t, s, spot))
		s.RequireRows(t)
		s.Exec(t, "UPDATE workers SET status = 'BUSY' WHERE id = ?", safe.WorkerID)
		late()
		require.Equal(t, 1, look())
		require.Equal(t, models.Needs("now"), s.Reload(t, job.ID).Needs, "the on-demand capacity is busy")
		s.Exec(t, "UPDATE workers SET status = 'IDLE' WHERE id = ?", safe.WorkerID)
		late()
		require.Equal(t, 1, look())
		require.Equal(t, models.Needs("on-demand,now"), s.Reload(t, job.ID).Needs)
		_, err := s.Fleet.TerminateWorker(t.Context(), s.Admin, safe.WorkerID)
		require.NoError(t, err)
		late()
		require.Equal(t, 1, look())
		require.Equal(t, "moved back to any capacity: no on-demand capacity has room for it", said(t, s, job.ID)["reason"])
		require.Equal(t, job.ID, leased(t, s, spot).Job.ID)
	})

	t.Run("RunsAnywhereOnceItIsPastOrOnDemandMachinesAreRefused", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := jobstest.AddPool(t, s, 0, 2)
		s.Exec(t, "UPDATE pools SET capacity_class = 'ON_DEMAND'")
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(5 * time.Second)) })
		look := func(finish string) string {
			s.Exec(t, "UPDATE jobs SET slack_until = now(), finish_by = now() + ?::interval", finish)
			n, err := s.Releaser.Slack(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
			return fmt.Sprint(said(t, s, job.ID)["reason"])
		}
		require.Equal(t, models.Needs("on-demand,now"), job.Needs, "the pool can boot a worker")

		s.Exec(t, "UPDATE pools SET backoff_until = now() + interval '1 h' WHERE id = ?", pool.ID)
		require.Equal(t, "moved back to any capacity: no on-demand capacity has room for it", look("20 s"))
		s.Exec(t, "UPDATE pools SET backoff_until = now() WHERE id = ?", pool.ID)
		require.Equal(t, "moved to on-demand capacity: its finishBy leaves no slack", look("20 s"))
		require.False(t, s.Reload(t, job.ID).SlackUntil.After(s.Reload(t, job.ID).FinishBy), "it is looked at again by then")
		require.Equal(t, "moved back to any capacity: its finishBy is in the past", look("0"))

		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		again, err := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
		require.NoError(t, err)
		require.Equal(t, []any{models.Needs(""), time.Time{}}, []any{again.Needs, again.SlackUntil}, "a new run begins anywhere")
	})

	t.Run("StaysOnSpotCapacityIfItsLossHardlyMatters", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		pool := jobstest.AddPool(t, s, 0, 2)
		s.Exec(t, "UPDATE pools SET capacity_class = 'SPOT', price_per_hour_usd = 1 WHERE id = ?", pool.ID)
		costs(t, s, "safe", models.CapacityOnDemand, 2)
		// The render takes 30 minutes, and it has 33.
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(time.Hour)) })
		s.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = 1800")
		look := func() models.Needs {
			s.Exec(t, "UPDATE jobs SET slack_until = now(), finish_by = now() + interval '33 min'")
			n, err := s.Releaser.Slack(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
			return s.Reload(t, job.ID).Needs
		}
		lives := func(n int, lived string, drained any) {
			s.Exec(t, `INSERT INTO workers (id, pool_id, provider, provider_instance_id, status, gpu_type, region, capacity_class, models,
					price_per_hour_usd, created_at, registered_at, ended_at, drain_reason, last_heartbeat_at)
				SELECT gen_random_uuid(), ?, 'fake', 'vm-' || i || ?, 'TERMINATED', 'any', 'here', 'SPOT', ARRAY['testcard'],
					1, now() - ?::interval, now() - ?::interval, now(), ?, now() FROM generate_series(1, ?) i`, pool.ID, lived, lived, lived, drained, n)
		}
		require.Equal(t, models.Needs("on-demand,now"), look(), "nothing is known of its spot workers")
		lives(99, "10 h", models.LeavesFewer)
		require.Equal(t, models.Needs("now"), look(), "they live long")
		lives(60, "5 min", nil)
		require.Equal(t, models.Needs("on-demand,now"), look(), "they are taken away soon")
		s.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = 10")
		require.Equal(t, models.Needs("cheap"), look(), "it has slack")
		s.Exec(t, "UPDATE jobs SET max_preemptions = 0, estimated_gpu_seconds = 1800")
		s.Exec(t, "DELETE FROM workers WHERE drain_reason IS NULL AND pool_id = ?", pool.ID)
		require.Equal(t, models.Needs("on-demand,now"), look(), "it may lose no worker")
	})

	t.Run("IsLookedAtWhenTheJobEntersItsQueue", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		spot := costs(t, s, "spot", models.CapacitySpot, 1)
		costs(t, s, "safe", models.CapacityOnDemand, 2)

		soon := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(5 * time.Second)) })
		require.Equal(t, "moved to on-demand capacity: its finishBy leaves no slack", said(t, s, soon.ID)["reason"])
		require.Nil(t, leased(t, s, spot))
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(time.Hour)) })
		lease := leased(t, s, spot)
		s.Exec(t, "UPDATE jobs SET finish_by = now() + interval '20 s' WHERE id = ?", job.ID)
		_, err := s.Attempts.Release(t.Context(), spot, jobstest.FenceOf(lease), models.FailPreempted)
		require.NoError(t, err)

		require.Equal(t, models.Needs("on-demand,now"), s.Reload(t, job.ID).Needs)
		require.Nil(t, leased(t, s, spot))
		n, err := s.Releaser.Slack(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "both are where they belong")
	})

	t.Run("LeavesDearWorkersToOthersWhileThereIsSlack", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		in := func(d time.Duration) func(*submit.Submission) {
			return func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(d)) }
		}
		dear := costs(t, s, "dear", models.CapacityOnDemand, 2)
		alone := jobstest.SubmitWith(t, s, in(time.Hour))
		require.Equal(t, alone.ID, leased(t, s, dear).Job.ID, "no cheaper capacity can run it")

		costs(t, s, "spot", models.CapacitySpot, 1)
		other := costs(t, s, "other", models.CapacityOnDemand, 2)
		free := costs(t, s, "free", models.CapacityOnDemand, 0)
		waits, next := jobstest.SubmitWith(t, s, in(time.Hour)), jobstest.SubmitWith(t, s, func(*submit.Submission) {})
		require.Equal(t, next.ID, leased(t, s, other).Job.ID, "it is not in the way")
		require.Equal(t, waits.ID, leased(t, s, free).Job.ID)
		require.True(t, jobstest.SubmitWith(t, s,
			func(j *submit.Submission) { in(time.Hour)(j); j.MaxPreemptions = new(0) }).Needs == "on-demand")
		s.RequireInvariants(t)
	})

	t.Run("EndsBeforeTheJobExpires", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		costs(t, s, "spot", models.CapacitySpot, 1)
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) {
			in.ExpiresAt, in.FinishBy = &expires, new(time.Now().Add(24*time.Hour))
		})

		require.WithinDuration(t, expires.Add(-slackReserve), job.SlackUntil, time.Second)
		require.Equal(t, models.Needs("cheap"), job.Needs)
		s.Exec(t, "UPDATE jobs SET started_at = now() WHERE id = ?", job.ID)
		s.Exec(t, "UPDATE jobs SET slack_until = now()")
		_, err := s.Releaser.Slack(t.Context())
		require.NoError(t, err)
		require.Greater(t, time.Until(s.Reload(t, job.ID).SlackUntil), 23*time.Hour, "a job that has started does not expire")
	})

	t.Run("CountsWhatIsDone", func(t *testing.T) {
		t.Parallel()
		s := jobstest.New(t)
		spot := costs(t, s, "spot", models.CapacitySpot, 1)
		job := jobstest.SubmitWith(t, s, func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(time.Hour)) })
		s.Exec(t, "UPDATE jobs SET estimated_gpu_seconds = 3600, finish_by = now() + interval '2 h'")
		fence := jobstest.FenceOf(leased(t, s, spot))
		_, saved := jobstest.Checkpoint(t, s, spot, fence, 12)
		require.Positive(t, saved.Percent)

		_, err := s.Attempts.Release(t.Context(), spot, fence, models.FailPreempted)
		require.NoError(t, err)

		found := s.Reload(t, job.ID)
		render := 3600 * (1 - saved.Percent/100) * 1.1
		require.WithinDuration(t, found.FinishBy.Add(-slackReserve-time.Duration(render*float64(time.Second))), found.SlackUntil, time.Second)
	})
}

// slackReserve is what a start takes.
const slackReserve = 4 * time.Minute

// TestBearTogether lets workers of both classes take, lose and complete jobs that bear
// different things, all at once.
func TestBearTogether(t *testing.T) {
	t.Parallel()

	s := jobstest.New(t)
	var made []*models.Job
	for i := range 24 {
		made = append(made, jobstest.SubmitWith(t, s, func(in *submit.Submission) {
			switch i % 4 {
			case 0:
				in.MaxPreemptions = new(i % 3)
			case 1:
				in.MaxPricePerHour = new(1.0)
			case 2:
				in.FinishBy = new(time.Now().Add(time.Duration(i) * time.Minute))
			}
		}))
	}
	var workers errgroup.Group
	for i := range 6 {
		class := lo.Ternary(i%2 == 0, models.CapacitySpot, models.CapacityOnDemand)
		w := costs(t, s, fmt.Sprint("w", i), class, float64(1+i%2))
		workers.Go(func() error {
			for n := 0; n < 8; n++ {
				l, _, err := s.Leaser.Lease(t.Context(), w, lease.LeaseCall{WorkerID: w.WorkerID})
				if err != nil || l == nil {
					return err
				}
				if !(models.Offer{CapacityClass: class, PricePerHourUSD: new(float64(1 + i%2))}).Meets(l.Job.Needs) {
					return fmt.Errorf("a %s worker got a job that needs %q", class, l.Job.Needs)
				}
				if _, err := s.Attempts.Release(t.Context(), w, jobstest.FenceOf(l), models.FailPreempted); err != nil {
					return err
				}
			}
			return nil
		})
		workers.Go(func() error { _, err := s.Releaser.Slack(t.Context()); return err })
	}

	require.NoError(t, workers.Wait())

	for _, job := range made {
		found := s.Reload(t, job.ID)
		require.Equal(t, found.Spent() && found.FinishBy.IsZero(), found.Needs.OnDemand() && found.FinishBy.IsZero(), found)
	}
	s.RequireInvariants(t)
	s.RequireRows(t)
	require.True(t, slices.ContainsFunc(made, func(j *models.Job) bool { return s.Reload(t, j.ID).Preemptions > 0 }))
}
