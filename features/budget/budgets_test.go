package budget_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/reelay/reelay/features/budget"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/pass"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/budgets"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { jobstest.Main(m) }

// rig is a stack whose jobs are estimated at $0.03 each.
type rig struct {
	*jobstest.Stack
	*budget.Budgets
	*pass.Purser
	operator jobs.Principal
	pool     models.PoolID
}

func newRig(t *testing.T) rig {
	t.Helper()
	s := jobstest.New(t)
	pool := jobstest.AddPool(t, s, 0, 9)
	r := rig{Stack: s, Budgets: &budget.Budgets{DB: s.DB}, Purser: &pass.Purser{DB: s.DB, Notifier: s.Notifier},
		operator: s.NewKey(t, s.Account, access.RoleOperator), pool: pool.ID}
	job := s.Submit(t)
	s.Exec(t, "UPDATE pools SET price_per_hour_usd = 0.03 * 3600 / ? WHERE id = ?", job.EstimatedGPUSeconds, pool.ID)
	s.Exec(t, "DELETE FROM pool_prices")
	_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
	require.NoError(t, err)
	require.NoError(t, s.Estimates.Refresh(t.Context()))
	return r
}

// set sets a budget of the client's account.
func (r *rig) set(t *testing.T, limit string, change func(*budget.Input)) *budget.Budget {
	t.Helper()
	in := budget.Input{AccountID: r.Account.ID, Period: budgets.PerMonth, LimitUSD: decimal.RequireFromString(limit)}
	if change != nil {
		change(&in)
	}
	b, err := r.Set(t.Context(), r.operator, in)
	require.NoError(t, err)
	return b
}

// try submits a job for a user, and returns its refusal or nil.
func (r *rig) try(t *testing.T, user string) *apierror.Error {
	t.Helper()
	_, _, err := jobstest.TrySubmit(t.Context(), r.Stack, func(in *submit.Submission) { in.UserID = user })
	if err != nil {
		require.NotNil(t, submit.Refusal(err), "%v", err)
	}
	return submit.Refusal(err)
}

// count returns how many of n submits for a user are accepted.
func (r *rig) count(t *testing.T, n int, user string) (accepted int) {
	t.Helper()
	for range n {
		if why := r.try(t, user); why == nil {
			accepted++
		} else {
			require.Equal(t, apierror.CodeBudgetExceeded, why.Code, why.Message)
		}
	}
	return accepted
}

// complete runs a job for a time in the pool.
func (r *rig) complete(t *testing.T, instance string, hours float64) *models.Job {
	t.Helper()
	worker := r.Worker(t, instance)
	r.Exec(t, "UPDATE workers SET pool_id = ? WHERE id = ?", r.pool, worker.WorkerID)
	held, fence := r.Lease(t, worker)
	r.Exec(t, "UPDATE job_attempts SET leased_at = leased_at - make_interval(secs => ?) WHERE id = ?", hours*3600, fence.AttemptID)
	r.Exec(t, "UPDATE jobs SET leased_at = leased_at - make_interval(secs => ?) WHERE id = ?", hours*3600, held.Job.ID)
	r.finish(t, worker, fence)
	return r.Reload(t, held.Job.ID)
}

// finish completes a held job.
func (r *rig) finish(t *testing.T, worker jobs.Principal, fence lease.Fence) {
	t.Helper()
	video := r.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
	_, err := r.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video})
	require.NoError(t, err)
}

func (r *rig) pass(t *testing.T) {
	t.Helper()
	_, err := r.Pass(t.Context())
	require.NoError(t, err)
}

// use returns the standing of the only budget.
func (r *rig) use(t *testing.T) *budget.Use {
	t.Helper()
	all, err := r.List(t.Context(), r.operator, "")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NotEmpty(t, all[0].Use)
	return all[0].Use[0]
}

func same(t *testing.T, want string, got decimal.Decimal) {
	t.Helper()
	require.True(t, decimal.RequireFromString(want).Equal(got.Round(6)), "want %s, got %s", want, got)
}

func TestBudget(t *testing.T) {
	t.Parallel()

	t.Run("RefusesWhatIsAboveIt", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.1", nil)

		require.Equal(t, 3, r.count(t, 5, ""))

		why := r.try(t, "")
		require.Positive(t, why.RetryAfterSeconds)
		require.Contains(t, why.Message, "would cost about $0.0300")
		require.Contains(t, why.Message, "$0.0100 left")
		same(t, "0.09", r.use(t).ReservedUSD)
		r.pass(t)
		same(t, "0.09", r.use(t).ReservedUSD)
		require.Equal(t, 0, r.count(t, 1, ""))
	})

	t.Run("IsNeverExceededByConcurrentSubmits", func(t *testing.T) {
		t.Parallel()
		submits := 50
		if many := os.Getenv("REELAY_BUDGET_SUBMITS"); many != "" {
			var err error
			submits, err = strconv.Atoi(many)
			require.NoError(t, err)
		}
		r := newRig(t)
		r.Exec(t, "UPDATE accounts SET max_queued = 1000000, submits_per_minute = 1000000")
		limit := decimal.NewFromInt(int64(submits)).Div(decimal.NewFromInt(100)) // for a third of them
		r.set(t, limit.String(), nil)
		submitters := []*submit.Submitter{r.Submitter, r.AnotherSubmitter(), r.AnotherSubmitter()}
		var accepted, refused atomic.Int64
		var all sync.WaitGroup
		begun := time.Now()
		for i := range submits {
			all.Go(func() {
				_, _, err := submitters[i%3].Submit(t.Context(), r.Client, jobstest.Submission())
				switch why := submit.Refusal(err); {
				case err == nil:
					accepted.Add(1)
				case why != nil && why.Code == apierror.CodeBudgetExceeded:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
			if i%1000 == 25 {
				all.Go(func() { _, _ = r.Pass(t.Context()) })
			}
		}
		all.Wait()
		t.Logf("%d submits in %s: %d accepted", submits, time.Since(begun), accepted.Load())
		require.Equal(t, int64(submits/3), accepted.Load())
		require.Equal(t, int64(submits-submits/3), refused.Load())
		r.RequireInvariants(t)
	})

	t.Run("CountsAWholeBatchAndRefusesTheRestOfIt", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.1", nil)
		answers, err := r.Submitter.SubmitMany(t.Context(), r.Client, []submit.Submission{
			jobstest.Submission(), jobstest.Submission(), jobstest.Submission(), jobstest.Submission()})
		require.NoError(t, err)
		for i, one := range answers {
			require.Equal(t, i < 3, one.Refused == nil)
		}
	})

	t.Run("ReplacesTheEstimateByTheRealCost", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.1", nil)
		require.Equal(t, 1, r.count(t, 1, ""))

		job := r.complete(t, "one", 0) // it took no time

		same(t, "0.03", *job.EstimatedUSD)
		use := r.use(t)
		same(t, "0", use.ReservedUSD)
		require.Less(t, use.SpentUSD.InexactFloat64(), 0.01)
		require.Equal(t, 3, r.count(t, 4, ""))
	})

	t.Run("FreesWhatACancelledOrFailedJobReserved", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.05", nil)
		job := r.Submit(t)
		require.Equal(t, 0, r.count(t, 1, ""))
		_, err := r.Canceller.Cancel(t.Context(), r.Client, job.ID)
		require.NoError(t, err)
		require.Equal(t, 1, r.count(t, 2, ""))
	})

	t.Run("IsCheckedWhenTheOwnerRetries", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.05", nil)
		job := r.Submit(t)
		_, err := r.Canceller.Cancel(t.Context(), r.Client, job.ID)
		require.NoError(t, err)
		other := r.Submit(t)
		_, err = r.Retrier.Retry(t.Context(), r.Client, job.ID, false)
		jobstest.RequireCode(t, err, apierror.CodeBudgetExceeded)
		_, err = r.Canceller.Cancel(t.Context(), r.Client, other.ID)
		require.NoError(t, err)
		_, err = r.Retrier.Retry(t.Context(), r.Client, job.ID, false)
		require.NoError(t, err)
		same(t, "0.03", r.use(t).ReservedUSD)
	})

	t.Run("IsNeverExceededByConcurrentRetries", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var ids []models.JobID
		for range 10 {
			job := r.Submit(t)
			_, err := r.Canceller.Cancel(t.Context(), r.Client, job.ID)
			require.NoError(t, err)
			ids = append(ids, job.ID)
		}
		r.set(t, "0.1", nil)
		var accepted atomic.Int64
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				if _, err := r.Retrier.Retry(t.Context(), r.Client, id, false); err == nil {
					accepted.Add(1)
				}
			})
			all.Go(func() {
				if _, _, err := r.Submitter.Submit(t.Context(), r.Client, jobstest.Submission()); err == nil {
					accepted.Add(1)
				}
			})
		}
		all.Wait()
		require.Equal(t, int64(3), accepted.Load())
		r.RequireInvariants(t)
	})

	t.Run("OfUsersBoundsEachOfThem", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.07", func(in *budget.Input) { in.EachUser = true })
		r.set(t, "0.1", func(in *budget.Input) { in.UserID = "ann" })

		require.Equal(t, 3, r.count(t, 4, "ann"), "her own")
		require.Equal(t, 2, r.count(t, 4, "bob"))
		require.Equal(t, 2, r.count(t, 4, "cem"))
		require.Equal(t, 5, r.count(t, 5, ""), "without a user")
	})

	t.Run("OfADayAndOfAMonthHoldTogether", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.2", nil)
		r.set(t, "0.1", func(in *budget.Input) { in.Period = budgets.PerDay })
		r.set(t, "0.01", func(in *budget.Input) { in.Soft = true })
		require.Equal(t, 3, r.count(t, 5, ""))
	})

	t.Run("RefusesJobsOfUnknownCostUnlessItAllowsThem", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Exec(t, "UPDATE pools SET price_per_hour_usd = 0")
		require.NoError(t, r.Estimates.Refresh(t.Context()))
		r.set(t, "0.1", nil)
		require.Contains(t, r.try(t, "").Message, "Nobody knows what a job")
		r.set(t, "0.1", func(in *budget.Input) { in.Unknown = budgets.UnknownAllowed })
		require.Equal(t, 1, r.count(t, 1, ""))
	})

	t.Run("CountsWhatWasSpentAndReservedBeforeItWasSet", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		require.Equal(t, 2, r.count(t, 2, "ann"))
		r.complete(t, "one", 0)
		r.Exec(t, "UPDATE ledger SET charged_usd = 0.05 WHERE charged_usd > 0")
		r.set(t, "0.12", nil)
		use := r.use(t)
		same(t, "0.05", use.SpentUSD)
		same(t, "0.03", use.ReservedUSD)
		require.Equal(t, 1, r.count(t, 3, ""))
	})

	t.Run("MayBeLoweredBelowWhatIsReserved", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "1", nil)
		require.Equal(t, 3, r.count(t, 3, ""))
		r.set(t, "0.05", nil)
		require.Equal(t, 0, r.count(t, 1, ""))
		same(t, "0", r.use(t).LeftUSD())
		r.pass(t)
		r.Lease(t, r.Worker(t, "one")) // what was accepted runs
	})

	t.Run("BeginsAnewInTheZoneOfTheAccount", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Exec(t, "UPDATE accounts SET time_zone = 'Pacific/Kiritimati'") // 14 hours ahead
		r.set(t, "0.05", func(in *budget.Input) { in.Period = budgets.PerDay })
		require.Equal(t, 1, r.count(t, 2, ""))
		r.complete(t, "one", 0)
		r.Exec(t, "UPDATE purse_entries SET spent_usd = 0.05 WHERE spent_usd > 0")
		require.Equal(t, 0, r.count(t, 1, ""))
		zone, err := time.LoadLocation("Pacific/Kiritimati")
		require.NoError(t, err)
		use := r.use(t)
		require.Equal(t, time.Now().In(zone).Format(time.DateOnly), use.StartsAt.In(zone).Format(time.DateOnly))
		require.Zero(t, use.StartsAt.In(zone).Hour())

		r.pass(t)
		r.Exec(t, "UPDATE purses SET day = day - 1") // yesterday
		require.Equal(t, 1, r.count(t, 2, ""))
	})
}

func TestSpentBudget(t *testing.T) {
	t.Parallel()

	t.Run("LetsTheWaitingJobsWaitAndTheRunningOnesFinish", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.5", nil)
		require.Equal(t, 4, r.count(t, 4, ""))
		running := r.Worker(t, "running")
		held, fence := r.Lease(t, running)
		r.complete(t, "dear", 100)

		next := r.Worker(t, "next")
		none, _, err := r.Leaser.Lease(t.Context(), next, lease.LeaseCall{WorkerID: next.WorkerID})
		require.NoError(t, err)
		require.Nil(t, none)
		require.Equal(t, 2, r.waiting(t), "at once, also before the pass")
		r.pass(t)
		for _, id := range r.queued(t) {
			why, err := r.WaitingFor(t, id)
			require.NoError(t, err)
			require.Equal(t, query.WaitBudget, why[id][0].Code)
			require.Contains(t, why[id][0].Message, "The budget of the account for a month ($0.5000) is spent.")
			require.True(t, r.Reload(t, id).Needs.IsHeld())
		}
		r.finish(t, running, fence)
		require.Equal(t, models.JobCompleted, r.Reload(t, held.Job.ID).Status)

		r.set(t, "100000", nil)
		r.pass(t)
		for _, id := range r.queued(t) {
			require.Empty(t, r.Reload(t, id).Needs)
		}
		r.Lease(t, r.Worker(t, "more"))
	})

	t.Run("OfAUserHoldsNobodyElse", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.5", func(in *budget.Input) { in.EachUser = true })
		require.Equal(t, 3, r.count(t, 3, "ann"))
		require.Equal(t, 1, r.count(t, 1, "bob"))
		r.complete(t, "dear", 100)
		r.pass(t)
		next, _ := r.Lease(t, r.Worker(t, "next"))
		require.Equal(t, "bob", next.Job.UserID)
		require.Equal(t, 2, r.waiting(t))
	})

	t.Run("CancelsTheWaitingJobsIfItSaysSo", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.5", func(in *budget.Input) { in.AtLimit = budgets.LimitCancels })
		require.Equal(t, 3, r.count(t, 3, ""))
		ids := r.queued(t)
		r.complete(t, "dear", 100)
		r.pass(t)
		cancelled := 0
		for _, id := range ids {
			if job := r.Reload(t, id); job.Status == models.JobCancelled {
				cancelled++
				require.Equal(t, "the budget of the account for a month ($0.5000) is spent", job.CancelReason)
			}
		}
		require.Equal(t, 2, cancelled)
		same(t, "0", r.use(t).ReservedUSD)
	})

	t.Run("CancelsBesideAnotherThatLetsJobsWait", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.5", nil)
		r.set(t, "0.4", func(in *budget.Input) { in.Period, in.AtLimit = budgets.PerDay, budgets.LimitCancels })
		require.Equal(t, 3, r.count(t, 3, ""))
		r.complete(t, "dear", 100)
		r.pass(t)
		require.Zero(t, r.waiting(t))
	})

	t.Run("IsNotInTheWayOfOtherAccounts", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "5", nil)
		require.Equal(t, 60, r.count(t, 60, ""))
		r.complete(t, "dear", 10000)
		other := r.NewAccount(t, "other", r.Account.Tier)
		_, _, err := r.Submitter.Submit(t.Context(), r.NewKey(t, other, access.RoleClient), jobstest.Submission())
		require.NoError(t, err)
		next, _ := r.Lease(t, r.Worker(t, "next")) // before any pass
		require.Equal(t, other.ID, next.Job.AccountID)
	})

	t.Run("LeavesNoSlackToItsJobs", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.5", nil)
		require.Equal(t, 1, r.count(t, 1, ""))
		r.complete(t, "cheap", 0)
		id := jobstest.SubmitWith(t, r.Stack, func(in *submit.Submission) { in.FinishBy = new(time.Now().Add(time.Hour)) }).ID
		r.Exec(t, "UPDATE purse_entries SET spent_usd = 1 WHERE spent_usd > 0")
		r.pass(t)
		r.Exec(t, "UPDATE jobs SET slack_until = now() - interval '1 s' WHERE id = ?", id)
		_, err := r.Releaser.Slack(t.Context())
		require.NoError(t, err)
		require.True(t, r.Reload(t, id).Needs.IsHeld())
		r.set(t, "100000", nil)
		r.pass(t)
		require.False(t, r.Reload(t, id).Needs.IsHeld())
	})

	t.Run("HoldsThoseWhomAnotherOneBoundsOnceTheirOwnIsRemoved", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.set(t, "0.05", func(in *budget.Input) { in.EachUser = true })
		own := r.set(t, "100", func(in *budget.Input) { in.UserID = "ann" })
		require.Equal(t, 3, r.count(t, 3, "ann"))
		r.complete(t, "dear", 100)
		require.NoError(t, r.Remove(t.Context(), r.operator, own.ID))
		r.pass(t)
		for _, id := range r.queued(t) {
			require.True(t, r.Reload(t, id).Needs.IsHeld())
		}
	})

	t.Run("IsToldOfWhenItIsSetBelowWhatIsSpent", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		receiver := jobstest.NewReceiver(t)
		jobstest.Hook(t, r.Stack, receiver, "budget.reached")
		r.set(t, "1000", nil)
		require.Equal(t, 1, r.count(t, 1, ""))
		r.complete(t, "dear", 100)
		r.pass(t)
		r.set(t, "0.5", nil)
		require.Equal(t, 1, jobstest.Deliver(t, r.Stack))
		require.InDelta(t, 100, receiver.All()[0].Data(t)["percent"], 0)
	})

	t.Run("LetsJobsGoWhenItIsRemoved", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.set(t, "0", nil)
		require.Equal(t, 0, r.count(t, 1, ""))
		require.NoError(t, r.Remove(t.Context(), r.operator, b.ID))
		require.Nil(t, r.try(t, ""))
		for _, table := range []string{"purses", "purse_entries", "budget_holds", "budgets"} {
			require.Zero(t, r.Count(t, table), table)
		}
	})

	t.Run("IsToldOfOnceForEachPart", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		receiver := jobstest.NewReceiver(t)
		jobstest.Hook(t, r.Stack, receiver, "budget.reached")
		r.set(t, "0.2", nil)
		require.Equal(t, 3, r.count(t, 3, ""))
		for i, spent := range []string{"0.11", "0.01", "0.09"} { // 55, 60 and 105 percent
			r.complete(t, fmt.Sprint(i), 0)
			r.Exec(t, "UPDATE purse_entries SET spent_usd = ? WHERE spent_usd > 0", spent)
			r.pass(t)
			r.pass(t)
		}
		jobstest.Deliver(t, r.Stack)
		var parts []any
		for _, got := range receiver.All() {
			parts = append(parts, got.Data(t)["percent"])
		}
		require.ElementsMatch(t, []any{50.0, 100.0}, parts)
		r.RequireInvariants(t)
	})
}

// queued returns the QUEUED jobs.
func (r *rig) queued(t *testing.T) (ids []models.JobID) {
	t.Helper()
	require.NoError(t, r.Stack.DB.NewRaw("SELECT id FROM jobs WHERE status = 'QUEUED' ORDER BY id").Scan(t.Context(), &ids))
	return ids
}

func (r *rig) waiting(t *testing.T) int { return len(r.queued(t)) }

func TestSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for field, change := range map[string]func(*budget.Input){
		"limitUsd": func(in *budget.Input) { in.LimitUSD = decimal.NewFromInt(-1) },
		"period":   func(in *budget.Input) { in.Period = "YEAR" },
		"atLimit":  func(in *budget.Input) { in.AtLimit = "STOP" },
		"unknown":  func(in *budget.Input) { in.Unknown = "?" },
		"eachUser": func(in *budget.Input) { in.UserID, in.EachUser = "ann", true },
		"userId":   func(in *budget.Input) { in.UserID = "a\x00b" },
	} {
		in := budget.Input{AccountID: r.Account.ID, Period: budgets.PerDay, LimitUSD: decimal.NewFromInt(1)}
		change(&in)
		_, err := r.Set(t.Context(), r.operator, in)
		jobstest.RequireInvalid(t, err, field)
	}
	for _, limit := range []string{"1e20", "0.00000000001", "1e9999", "1e-9999"} {
		_, err := r.Set(t.Context(), r.operator, budget.Input{AccountID: r.Account.ID, Period: budgets.PerDay, LimitUSD: decimal.RequireFromString(limit)})
		jobstest.RequireInvalid(t, err, "limitUsd")
	}
	_, err := r.Set(t.Context(), r.operator, budget.Input{AccountID: models.NewAccountID(), Period: budgets.PerDay})
	jobstest.RequireCode(t, err, apierror.CodeNotFound)
	_, err = r.Set(t.Context(), r.Client, budget.Input{AccountID: r.Account.ID, Period: budgets.PerDay})
	jobstest.RequireCode(t, err, apierror.CodeForbidden)
	require.Zero(t, r.Count(t, "budgets"))

	other := r.NewAccount(t, "other", models.TierFree)
	r.set(t, "5", nil)
	again := r.set(t, "6", nil)
	mine, err := r.List(t.Context(), r.Client, "")
	require.NoError(t, err)
	require.Len(t, mine, 1, "it was changed")
	require.Equal(t, again.ID, mine[0].ID)
	_, err = r.List(t.Context(), r.Client, other.ID)
	jobstest.RequireCode(t, err, apierror.CodeForbidden)
	jobstest.RequireCode(t, r.Remove(t.Context(), r.operator, "bud_1"), apierror.CodeNotFound)
	jobstest.RequireCode(t, r.Remove(t.Context(), r.operator, models.NewBudgetID()), apierror.CodeNotFound)
}
