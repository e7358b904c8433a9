package query_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
)

// waitingFor returns the reasons why a job waits.
func waitingFor(t *testing.T, s *jobstest.Stack, id models.JobID) []query.WaitingReason {
	t.Helper()
	all, err := s.WaitingFor(t, id)
	require.NoError(t, err)
	return all[id]
}

func codes(reasons []query.WaitingReason) []query.WaitingCode {
	found := []query.WaitingCode{}
	for _, r := range reasons {
		found = append(found, r.Code)
	}
	return found
}

func TestWaitingFor(t *testing.T) {
	t.Parallel()

	t.Run("ExplainsEveryStateOfAJob", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		one := s.Worker(t, "one")
		parent := s.Submit(t)
		held, fence := s.Lease(t, one)
		require.Equal(t, parent.ID, held.Job.ID)
		soon := time.Now().Add(time.Hour)
		job := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) {
			in.DependsOn, in.RunAt = []models.JobID{parent.ID}, &soon
		})
		expect := func(codesOf ...query.WaitingCode) []query.WaitingReason {
			t.Helper()
			reasons := waitingFor(t, s, job.ID)
			require.Equal(t, append([]query.WaitingCode{}, codesOf...), codes(reasons))
			return reasons
		}

		blocked := expect(query.WaitDependency, query.WaitNotBefore)
		require.Contains(t, blocked[0].Message, "1 job must complete first: "+string(parent.ID))
		require.WithinDuration(t, soon, blocked[1].Until, time.Second)

		video := s.Upload(t, one, fence, models.ArtifactFinalVideo, []byte("a video"))
		_, err := s.Attempts.Complete(t.Context(), one, fence, lease.Completion{Video: &video})
		require.NoError(t, err)
		expect(query.WaitNotBefore)

		_, err = s.Registrar.Deregister(t.Context(), one, one.WorkerID)
		require.NoError(t, err)
		s.Exec(t, "UPDATE jobs SET run_at = clock_timestamp() WHERE id = ?", job.ID)
		_, err = s.Releaser.Due(t.Context())
		require.NoError(t, err)
		require.Equal(t, "No pool and no worker can run it: it needs testcard.", expect(query.WaitNoPool)[0].Message)

		_, err = s.Operator.PauseQueue(t.Context(), s.Admin, models.TierEnterprise, "testcard", "")
		require.NoError(t, err)
		expect(query.WaitQueuePaused, query.WaitNoPool)
		_, err = s.Operator.Halt(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases}, "fire")
		require.NoError(t, err)
		expect(query.WaitHalted, query.WaitQueuePaused, query.WaitNoPool) // each holds it, and ends for itself
		_, err = s.Operator.Resume(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases})
		require.NoError(t, err)
		_, err = s.Operator.ResumeQueue(t.Context(), s.Admin, models.TierEnterprise, "testcard")
		require.NoError(t, err)

		pool := &capacity.Pool{ID: models.NewPoolID(), PoolSpec: capacity.PoolSpec{Name: "p", Provider: "local", Region: "local", GPUType: "any",
			CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, MaxWorkers: 2}}
		require.NoError(t, capacity.UpsertPool(t.Context(), s.DB, pool))
		require.Equal(t, "No suitable worker is available; pool maximum is 2.", expect(query.WaitCapacityExhausted)[0].Message)
		s.Exec(t, "UPDATE pools SET max_workers = 0")
		require.Equal(t, "The pools that can run it may have no workers: their maximum is 0.", expect(query.WaitCapacityExhausted)[0].Message)
		s.Exec(t, "UPDATE pools SET max_workers = 2, closed_until = '2099-01-01T00:00:00Z'")
		closed := expect(query.WaitCapacityExhausted)[0]
		require.Equal(t, "No suitable worker is available: its pools have workers at certain hours only, again from 1 Jan 2099 00:00 UTC.",
			closed.Message)
		require.Equal(t, 2099, closed.Until.UTC().Year())
		s.Exec(t, "UPDATE pools SET closed_until = '2020-01-01T00:00:00Z', backoff_until = '2099-01-01T00:00:00Z', backoff_reason = 'ZONE_RESOURCE_POOL_EXHAUSTED'")
		refused := expect(query.WaitCapacityExhausted)[0]
		require.Equal(t, "No suitable worker is available: a provider has just refused machines. It is asked again at 1 Jan 2099 00:00:00 UTC.",
			refused.Message)
		require.Equal(t, 2099, refused.Until.UTC().Year())
		require.Equal(t, "ZONE_RESOURCE_POOL_EXHAUSTED", refused.Cause, "which only operators see")
		s.Exec(t, "UPDATE pools SET backoff_until = NULL, backoff_reason = '', provider_problem = 'permission denied for reelay@secret'")
		failing := expect(query.WaitCapacityExhausted)[0]
		require.Equal(t, "No suitable worker is available: the provider of the machines does not answer as it should.", failing.Message)
		require.Equal(t, failing.Message+" It says: permission denied for reelay@secret", failing.Whole(), "for operators")
		s.Exec(t, "UPDATE pools SET provider_problem = '', provider = 'static'")
		require.Equal(t, "No suitable worker has registered. Reelay does not start the machines of these pools; it waits for their agents.",
			expect(query.WaitCapacityExhausted)[0].Message)
		s.Exec(t, "UPDATE pools SET provider = 'local', tiers = '{BATCH}'")
		require.Equal(t, "No pool and no worker can run it: it needs testcard, and those that have it do not serve the enterprise lane.",
			expect(query.WaitNoPool)[0].Message)
		s.Exec(t, "UPDATE pools SET tiers = '{}', accounts = ARRAY[gen_random_uuid()]")
		require.Equal(t, "No pool and no worker can run it: it needs testcard, and those that have it are dedicated to other accounts.",
			expect(query.WaitNoPool)[0].Message)
		s.Exec(t, "UPDATE pools SET accounts = '{}'")
		s.Exec(t, "UPDATE jobs SET region = 'mars', require_region = true WHERE id = ?", job.ID)
		require.Equal(t, "No pool and no worker can run it: it needs testcard in the region mars.", expect(query.WaitNoPool)[0].Message)
		s.Exec(t, "UPDATE jobs SET region = NULL, require_region = false WHERE id = ?", job.ID)
		s.Exec(t, "UPDATE pools SET price_per_hour_usd = 2, max_price_per_hour_usd = 1")
		require.Equal(t, "Suitable machines cost more than the price limits of their pools.", expect(query.WaitPrice)[0].Message)
		s.Exec(t, "UPDATE pools SET quoted_usd = 0.5")
		expect(query.WaitCapacityExhausted)

		for needs, message := range map[string]string{
			"needs = 'on-demand', max_preemptions = 0":                                 "No pool and no worker can run it: it needs testcard. It runs on on-demand capacity only: its maxPreemptions is 0.",
			"needs = 'on-demand', max_preemptions = 1, preemptions = 1":                "No pool and no worker can run it: it needs testcard. It runs on on-demand capacity only: it was preempted once, and its maxPreemptions is 1.",
			"needs = 'on-demand', finish_by = now()":                                   "No pool and no worker can run it: it needs testcard. It runs on on-demand capacity only: its finishBy leaves no slack.",
			"needs = 'cheap', finish_by = now(), slack_until = '2099-01-01T00:00:00Z'": "No suitable worker is available; pool maximum is 2. Its finishBy leaves slack until 1 Jan 2099 00:00 UTC: until then it runs on spot capacity, or where a worker has no price.",
			"needs = 'price<=0.4', max_price_per_hour = 0.4":                           "No suitable worker is that cheap now. It runs only where a worker costs at most $0.4 per hour, its maxPricePerHour.",
			"needs = 'price<=0.5', max_price_per_hour = 0.5":                           "No suitable worker is available; pool maximum is 2. It runs only where a worker costs at most $0.5 per hour, its maxPricePerHour.",
			"require_region = true, region = 'local'":                                  "No suitable worker is available; pool maximum is 2. It runs only in the region local.",
		} {
			s.Exec(t, "UPDATE jobs SET "+needs)
			found, err := s.WaitingFor(t, job.ID)
			require.NoError(t, err)
			require.Equal(t, message, found[job.ID][0].Message)
			s.Exec(t, "UPDATE jobs SET needs = '', max_preemptions = NULL, preemptions = 0, finish_by = NULL, max_price_per_hour = NULL, require_region = false")
		}
		for needs, then := range map[string]string{
			"":      "The pools have room for 2 more workers, and boot them if the present ones do not start the jobs of its lane within 30 s.",
			"cheap": "The pools have room for 2 more workers, and boot them if the present ones do not start the jobs with slack within 10 min.",
			"now":   "The pools have room for 2 more workers, and boot one for it at once.",
		} {
			s.Exec(t, "UPDATE jobs SET needs = ?", needs)
			require.Equal(t, then, expect(query.WaitCapacityExhausted)[0].Consequence)
		}
		s.Exec(t, "UPDATE pools SET max_workers = 0")
		s.Exec(t, "UPDATE jobs SET needs = 'price<=0.4', max_price_per_hour = 0.4")
		require.Equal(t, "No pool and no worker can run it: it needs testcard. It runs only where a worker costs at most $0.4 per hour, its maxPricePerHour.",
			expect(query.WaitNoPool)[0].Message, "a pool without room would not run it at any price")
		s.Exec(t, "UPDATE pools SET max_workers = 2")
		s.Exec(t, "UPDATE jobs SET needs = '', max_price_per_hour = NULL")

		pool.QuotedUSD = new(0.5)
		booting := &models.Worker{
			ID: models.NewWorkerID(), PoolID: pool.ID, Provider: "local", ProviderInstanceID: "b", GPUCount: 1, Offer: pool.Offer(time.Now()),
			WarmModels: []string{}, Status: models.WorkerBooting,
		}
		require.NoError(t, models.InsertWorker(t.Context(), s.DB, booting))
		require.Zero(t, expect(query.WaitCapacityBooting)[0].Until)
		s.Exec(t, "UPDATE workers SET pool_id = ?, created_at = registered_at - interval '40 s' WHERE registered_at IS NOT NULL", pool.ID)
		boots := expect(query.WaitCapacityBooting)[0]
		require.Contains(t, boots.Message, "1 suitable worker is starting, ready in about ")
		require.WithinDuration(t, time.Now().Add(40*time.Second), boots.Until, 20*time.Second)
		s.Exec(t, "UPDATE workers SET status = 'TERMINATED', ended_at = clock_timestamp() WHERE status = 'BOOTING'")

		two := s.Worker(t, "two")
		expect()
		first := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Priority = 9 })
		require.Equal(t, "1 job ahead in the enterprise lane.", expect(query.WaitQueueAhead)[0].Message)

		s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", s.Account.ID)
		held, fence = s.Lease(t, two)
		require.Equal(t, first.ID, held.Job.ID)
		capped := expect(query.WaitAccountRunningCap, query.WaitCapacityExhausted)
		require.Equal(t, "1 worker that can run it is busy; pool maximum is 2.", capped[1].Message)

		_, err = s.Attempts.Fail(t.Context(), two, fence, lease.Failure{Class: models.FailContentPolicy})
		require.NoError(t, err)
		expect()
		held, _ = s.Lease(t, two)
		require.Equal(t, job.ID, held.Job.ID)
		expect()
	})

	t.Run("ReportsThatTheIdleWorkerHasJustFailedIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		one, two := s.Worker(t, "one"), s.Worker(t, "two")
		job := s.Submit(t)
		_, fence := s.Lease(t, one)
		s.Submit(t)
		_, other := s.Lease(t, two)
		_, err := s.Attempts.Fail(t.Context(), one, fence, lease.Failure{Class: models.FailModelCrash, Message: "NaN"})
		require.NoError(t, err)

		none, _, err := s.Leaser.Lease(t.Context(), one, lease.LeaseCall{WorkerID: one.WorkerID})
		require.NoError(t, err)
		require.Nil(t, none)
		spared := waitingFor(t, s, job.ID)
		_, err = s.Attempts.Release(t.Context(), two, other, models.FailPreempted)
		require.NoError(t, err)
		ahead := waitingFor(t, s, job.ID)

		require.Equal(t, []query.WaitingCode{query.WaitCapacityExhausted}, codes(spared))
		require.Contains(t, spared[0].Message, "1 worker that can run it is busy; the idle one has just failed it")
		require.WithinDuration(t, time.Now().Add(time.Minute), spared[0].Until, 30*time.Second)
		require.NotContains(t, codes(ahead), query.WaitCapacityExhausted, "the other worker is free for it")
	})

	t.Run("CountsTheJobsAheadOfIt", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)
		s.Exec(t, "UPDATE accounts SET max_running = 100, max_queued = 1000")
		for range 3 {
			s.Submit(t)
		}
		for range 20 {
			jobstest.SubmitAs(t, s, other, nil)
		}
		last := s.Submit(t)
		pro := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierPro })
		s.Exec(t, "UPDATE jobs SET queued_at = clock_timestamp() - interval '11 minutes' WHERE id = ?", pro.ID)
		_, err := s.Promoter.Promote(t.Context())
		require.NoError(t, err)
		ahead := map[models.JobID]string{}
		for _, id := range []models.JobID{last.ID, pro.ID} {
			reasons := waitingFor(t, s, id)
			ahead[id] = reasons[len(reasons)-1].Message
		}

		starts := map[models.JobID]int{}
		for i := range 25 {
			starts[jobstest.LeaseNext(t, s, s.Worker(t, string(rune('a'+i)))).Job.ID] = i
		}

		require.Equal(t, "7 jobs ahead in the enterprise lane.", ahead[last.ID])
		require.Equal(t, 7, starts[last.ID])
		require.Equal(t, "9 jobs ahead in the enterprise lane.", ahead[pro.ID])
		require.Equal(t, 9, starts[pro.ID])
	})

	t.Run("CountsJobsOfHigherLanes", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Worker(t, "one")
		batch := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = models.TierBatch })
		for _, tier := range []models.Tier{models.TierEnterprise, models.TierPro, models.TierPro, models.TierBatch} {
			jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = tier })
		}
		why := func() []string {
			reasons, err := s.WaitingFor(t, batch.ID)
			require.NoError(t, err)
			var messages []string
			for _, reason := range reasons[batch.ID] {
				messages = append(messages, reason.Message)
			}
			return messages
		}

		require.Equal(t, []string{"3 jobs ahead in the batch lane and the lanes above it."}, why())
		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, models.TierPro, "", "")
		require.NoError(t, err)
		require.Equal(t, []string{"1 job ahead in the batch lane and the lanes above it."}, why())
	})

	t.Run("StopsCountingAtALimit", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.Exec(t, "UPDATE accounts SET max_queued = 1000")
		for range 101 {
			s.Submit(t)
		}
		hundredth := s.Submit(t)

		reasons := waitingFor(t, s, hundredth.ID)

		require.Equal(t, "More than 100 jobs ahead in the enterprise lane.", reasons[len(reasons)-1].Message)
	})

	t.Run("DoesNotCountAJobLeasedMeanwhile", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		worker := s.Worker(t, "one")
		job := s.Submit(t)
		taken := &afterFirst{do: func() { s.Lease(t, worker) }}
		s.ReadOver(s.DB.WithQueryHook(taken))

		reasons := waitingFor(t, s, job.ID)

		require.True(t, taken.done.Load(), "the worker took it between two statements")
		require.Empty(t, reasons, "it is next")
		require.Empty(t, waitingFor(t, s, job.ID), "it waits no longer")
	})

	t.Run("TellsOperatorsWhoStoppedTheStarts", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		job := s.Submit(t)
		stopped := func(lane models.Tier, what, reason string) query.WaitingReason {
			t.Helper()
			first := waitingFor(t, s, job.ID)[0]
			require.NotNil(t, first.Stop)
			require.Equal(t, query.Stop{What: what, Lane: lane, By: "test ADMIN", At: first.Stop.At, Reason: reason}, *first.Stop)
			want := what + " by test ADMIN since " + text.Moment(first.Stop.At.UTC(), time.Now())
			if reason != "" {
				want += ": " + strings.TrimSuffix(reason, ".")
			}
			require.Equal(t, want+".", first.For(s.Admin))
			require.Equal(t, want+".", first.Whole())
			require.NotContains(t, first.For(s.Client), "test ADMIN", "clients do not see operators")
			return first
		}

		_, err := s.Operator.PauseQueue(t.Context(), s.Admin, job.Lane, job.Model, "The storage is full.")
		require.NoError(t, err)
		first := stopped(job.Lane, "The enterprise lane is paused for testcard", "The storage is full.")
		require.Equal(t, "The enterprise lane is paused for testcard.", first.For(s.Client), "reasons of pauses are for operators")
		_, err = s.Operator.PauseQueue(t.Context(), s.Admin, job.Lane, "", "")
		require.NoError(t, err)
		stopped(job.Lane, "The enterprise lane is paused", "")
		s.Exec(t, "UPDATE queue_pauses SET changed_by = 'ann@example.com'")
		require.Equal(t, "ann@example.com", waitingFor(t, s, job.ID)[0].Stop.By, "a member is named by the address")
		_, err = s.Operator.Halt(t.Context(), s.Admin, []models.HaltTarget{models.HaltLeases}, "migration")
		require.NoError(t, err)
		first = stopped("", "The starts of all jobs are halted", "migration")
		require.Contains(t, first.For(s.Client), ": migration.", "those of halts are for owners, too")
	})

	t.Run("TakesTheSameStatementsForManyJobs", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		var ids []models.JobID
		for _, tier := range []models.Tier{"", models.TierPro, models.TierFree, models.TierBatch} {
			for range 5 {
				ids = append(ids, jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Tier = tier }).ID)
			}
		}
		count := &jobstest.QueryCount{}
		s.ReadOver(s.DB.WithQueryHook(count))

		_, err := s.WaitingFor(t, ids[:1]...)
		require.NoError(t, err)
		one := count.N.Swap(0)
		_, err = s.WaitingFor(t, ids...)
		require.NoError(t, err)

		require.Equal(t, one, count.N.Load())
	})
}

// afterFirst calls a function once, after the first statement that reads jobs.
type afterFirst struct {
	done atomic.Bool
	do   func()
}

func (a *afterFirst) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (a *afterFirst) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	if strings.Contains(event.Query, `"jobs"`) && a.done.CompareAndSwap(false, true) {
		a.do()
	}
}
