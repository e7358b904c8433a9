package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// candidates selects the queued jobs that a worker can run, in no order. own_order is the
// place among an account's own jobs: requeued ones, then priority, then age. The arguments are
// the worker and its GPU rank.
const candidates = `
	SELECT j.id, j.account_id, j.lane, l.promoted, l.virtual_time, t.since_promoted, a.running, a.max_running,
		coalesce(j.region = w.region, false) AS wished,
		row_number() OVER (ORDER BY NOT j.requeued, j.priority DESC, j.ticket) AS own_order
	FROM jobs j
	JOIN workers w ON w.id = ?0
	JOIN lanes t ON t.lane = j.lane
	JOIN accounts a ON a.id = j.account_id
	JOIN account_lanes l ON l.account_id = j.account_id AND l.lane = j.lane AND l.promoted = (j.lane <> j.tier AND j.lane <> 'CRITICAL')
	WHERE j.status = 'QUEUED' AND j.gpu_rank <= ?1 AND (NOT j.require_region OR j.region = w.region)
		AND (w.tiers = '{}' OR j.lane = ANY (w.tiers)) AND (w.accounts = '{}' OR j.account_id = ANY (w.accounts))
		AND NOT EXISTS (SELECT FROM queue_pauses p WHERE p.paused AND p.lane = j.lane AND p.model IN ('', j.model))
		AND NOT (j.started_at IS NULL AND coalesce(j.expires_at < clock_timestamp(), false))
		AND NOT (coalesce(j.avoid_worker_id = w.id AND j.avoid_until > clock_timestamp(), false) AND EXISTS (
			SELECT FROM workers o WHERE o.id <> w.id AND o.status IN ('IDLE', 'BUSY')
				AND (j.gpu_rank = 0 OR o.gpu_type = 'large') AND (NOT j.require_region OR o.region = j.region)
				AND (o.tiers = '{}' OR j.lane = ANY (o.tiers)) AND (o.accounts = '{}' OR j.account_id = ANY (o.accounts))))`

// candidate is a row of candidates.
type candidate struct {
	ID        models.JobID     `bun:"id"`
	AccountID models.AccountID `bun:"account_id"`
	models.Line
	VirtualTime     float64 `bun:"virtual_time"`
	OwnOrder        int64   `bun:"own_order"`
	SincePromoted   int     `bun:"since_promoted"`
	Running         int     `bun:"running"`
	MaxRunning      int     `bun:"max_running"`
	PreferredRegion bool    `bun:"wished"`
}

// due returns the job that comes first for a worker according to package fairqueue, without an
// index; "" if there is none.
func due(t require.TestingT, s *jobstest.Stack, worker models.WorkerID, rank int) models.JobID {
	var all []candidate
	require.NoError(t, s.DB.NewRaw(candidates, worker, rank).Scan(context.Background(), &all))
	turns := fairqueue.Turns{}
	all = slices.DeleteFunc(all, func(c candidate) bool {
		turns[c.Lane] = c.SincePromoted
		return !fairqueue.Eligible(1, c.Running, c.MaxRunning)
	})
	slices.SortFunc(all, func(a, b candidate) int { return turns.Compare(a.place(), b.place()) })
	var heads []candidate
	for _, c := range all {
		if c.Line == all[0].Line && !slices.ContainsFunc(heads, func(h candidate) bool { return h.AccountID == c.AccountID }) {
			heads = append(heads, c)
		}
	}
	if len(heads) == 0 {
		return ""
	}
	fairqueue.Choose(heads, func(c candidate) float64 { return c.VirtualTime },
		func(c candidate) int { return lo.Ternary(c.PreferredRegion, 0, 1) })
	return heads[0].ID
}

func (c candidate) place() fairqueue.Place {
	return fairqueue.Place{Line: c.Line, VirtualTime: c.VirtualTime, Order: c.OwnOrder}
}

// workerOf registers a worker with a region and a GPU type.
func workerOf(t testing.TB, s *jobstest.Stack, instance, gpuType, region string) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: instance, GPUCount: 1, Region: region, GPUType: gpuType,
		CapacityClass: models.CapacitySpot, Models: []string{"testcard"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// withGPUs gives the model a list of GPU types, smallest first.
func withGPUs(t testing.TB, s *jobstest.Stack, types ...string) {
	t.Helper()
	known, err := s.Leaser.Catalogue.Current().Model("testcard")
	require.NoError(t, err)
	model := *known
	model.GPUTypes = types
	s.Leaser.Catalogue.Replace(catalogue.New(&model))
}

func TestOrder(t *testing.T) {
	t.Parallel()

	t.Run("IsTheSameWithAndWithoutTheIndex", func(t *testing.T) {
		t.Parallel()

		steps, leases := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			l := newLife(t, models.TierCritical, models.TierEnterprise, models.TierEnterprise, models.TierPro, models.TierFree, models.TierBatch)
			s := l.s
			withGPUs(t, s, "small", "large")
			l.workers = nil
			for i, kind := range []string{"small eu", "small us", "large eu", "large us"} {
				var gpu, region string
				_, err := fmt.Sscan(kind, &gpu, &region)
				require.NoError(t, err)
				l.workers = append(l.workers, workerOf(t, s, fmt.Sprint("kind ", i), gpu, region))
			}
			s.Exec(t, "UPDATE accounts SET weight = 1 + ascii(name) % 2, max_running = 1 + ascii(name) % 3 WHERE name < 'a'")
			// change changes a queued job's kind, as a requeue would.
			change := func(set string) func(*rapid.T) {
				return func(rt *rapid.T) {
					job := s.Reload(t, pick(rt, l.jobs, "job"))
					if job.Status != models.JobQueued {
						rt.Skip("it does not wait")
					}
					_ = s.Notifier.Index.Remove(context.Background(), jobs.ReadyJob{Queue: job.Queue(), ID: job.ID, Account: job.AccountID,
						VirtualTime: -1})
					s.Exec(t, "UPDATE jobs SET "+set+" WHERE id = ?", job.ID)
					if err := s.Readier.Ready(context.Background(), job.ID); err != nil {
						jobstest.RequireCode(rt, err, apierror.CodeNotFound)
					}
				}
			}
			rt.Repeat(map[string]func(*rapid.T){
				"":            func(*rapid.T) { steps++ },
				"submit":      l.submit,
				"submit too":  l.submit,
				"submit more": l.submit,
				"release":     l.release,
				"fail":        l.fail,
				"cancel":      l.cancel,
				"due":         l.due(t),
				"raise":       change("gpu_rank = 1"),
				"require":     change("require_region = true, region = 'eu'"),
				"expire":      change("expires_at = clock_timestamp()"),
				"avoid":       change("avoid_until = clock_timestamp() + interval '1 hour', avoid_worker_id = (SELECT id FROM workers WHERE status <> 'TERMINATED' ORDER BY random() LIMIT 1)"),
				"dedicate": func(rt *rapid.T) {
					set := rapid.SampledFrom([]string{
						"tiers = '{}', accounts = '{}'", "tiers = '{PRO,FREE}'", "tiers = '{BATCH}', accounts = '{}'",
						"accounts = ARRAY(SELECT id FROM accounts ORDER BY random() LIMIT 1)",
						"accounts = ARRAY(SELECT id FROM accounts ORDER BY random() LIMIT 3)",
					}).Draw(rt, "pool")
					s.Exec(t, "UPDATE workers SET "+set+" WHERE id = ?", pick(rt, l.workers, "worker").WorkerID)
				},
				"turn":  func(*rapid.T) { s.Exec(t, "UPDATE lanes SET since_promoted = 9 - since_promoted / 9") },
				"lose":  func(*rapid.T) { s.Index().Lose() },
				"sweep": func(rt *rapid.T) { require.NoError(rt, s.Readier.Sweep(context.Background())) },
				"promote": func(rt *rapid.T) {
					s.Exec(t, "UPDATE jobs SET queued_at = queued_at - interval '7 hours' WHERE status = 'QUEUED'")
					_, err := s.Promoter.Promote(context.Background())
					require.NoError(rt, err)
				},
				"set tier": func(rt *rapid.T) {
					_, err := s.Operator.SetJobTier(context.Background(), s.Admin, pick(rt, l.jobs, "job"),
						rapid.SampledFrom(models.Tiers).Draw(rt, "tier"))
					allowed(rt, err, apierror.CodeConflict)
				},
				"pause": func(rt *rapid.T) {
					steer := rapid.SampledFrom([]func(*operate.QueueOperator) (*backlog.QueueCount, error){
						func(o *operate.QueueOperator) (*backlog.QueueCount, error) {
							return o.PauseQueue(context.Background(), s.Admin, models.TierPro, "", "")
						},
						func(o *operate.QueueOperator) (*backlog.QueueCount, error) {
							return o.ResumeQueue(context.Background(), s.Admin, models.TierPro, "")
						},
						func(o *operate.QueueOperator) (*backlog.QueueCount, error) {
							return o.PauseQueue(context.Background(), s.Admin, models.TierEnterprise, "testcard", "")
						},
						func(o *operate.QueueOperator) (*backlog.QueueCount, error) {
							return o.ResumeQueue(context.Background(), s.Admin, models.TierEnterprise, "testcard")
						},
					}).Draw(rt, "way")
					_, err := steer(s.Operator)
					require.NoError(rt, err)
				},
				"lease": func(rt *rapid.T) {
					var idle []int
					for i, w := range l.workers {
						if _, err := models.FindLiveAttempt(context.Background(), s.DB, w.WorkerID); err != nil {
							idle = append(idle, i)
						}
					}
					i := pick(rt, idle, "worker")
					expected := due(rt, s, l.workers[i].WorkerID, i/2)

					got := jobstest.LeaseNext(rt, s, l.workers[i])

					l.keep(l.workers[i], got)
					if expected == "" {
						require.Nil(rt, got)
						return
					}
					require.NotNil(rt, got)
					require.Equal(rt, expected, got.Job.ID)
					leases++
				},
			})
			l.s.RequireInvariants(rt)
		})
		if steps >= enough {
			require.Positive(t, leases)
		}
	})

	for name, lose := range jobstest.LoseIndex {
		t.Run("GivesOneStartInTenToPromotedJobs"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			own := s.NewKey(t, s.NewAccount(t, "own", models.TierPro), access.RoleClient)
			free := s.NewKey(t, s.NewAccount(t, "free", models.TierFree), access.RoleClient)
			s.Exec(t, "UPDATE accounts SET max_queued = 1000, max_running = 100")
			for range 40 {
				jobstest.SubmitAs(t, s, own, nil)
			}
			for range 8 {
				jobstest.SubmitAs(t, s, free, nil)
			}
			jobstest.PromoteAll(t, s)
			lose(s)

			var promoted []int
			worker := s.Worker(t, "one")
			for i := range 48 {
				held := jobstest.LeaseNext(t, s, worker)
				require.NotNil(t, held, i)
				require.Equal(t, models.TierPro, held.Job.Lane)
				if held.Job.Tier == models.TierFree {
					promoted = append(promoted, i)
				}
				_, err := s.Attempts.Fail(t.Context(), worker, jobstest.FenceOf(held), lease.Failure{Class: models.FailContentPolicy})
				require.NoError(t, err)
			}

			require.Equal(t, []int{9, 19, 29, 39, 44, 45, 46, 47}, promoted, "one in ten, and all of them once nobody else waits")
		})
	}

	t.Run("GivesConcurrentCallsNoMorePromotedJobs", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		for i := range 40 { // concurrent claims of one account would wait for each other
			for _, tier := range []models.Tier{models.TierPro, models.TierFree} {
				jobstest.SubmitAs(t, s, s.NewKey(t, s.NewAccount(t, fmt.Sprint(tier, i), tier), access.RoleClient), nil)
			}
		}
		jobstest.PromoteAll(t, s)
		var fleet []jobs.Principal
		for i := range 30 {
			fleet = append(fleet, s.Worker(t, fmt.Sprint(i)))
		}

		var calls sync.WaitGroup
		for _, worker := range fleet {
			calls.Go(func() { jobstest.LeaseNext(t, s, worker) })
		}
		calls.Wait()

		var tiers []models.Tier
		require.NoError(t, s.DB.NewRaw("SELECT tier FROM jobs WHERE status = 'ASSIGNED'").Scan(t.Context(), &tiers))
		require.Len(t, tiers, 30)
		require.Len(t, slices.DeleteFunc(tiers, func(tier models.Tier) bool { return tier != models.TierFree }), 3)
	})

	t.Run("GivesACappedAccountNoCredit", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		capped := s.NewAccount(t, "capped", models.TierEnterprise)
		s.Exec(t, "UPDATE accounts SET max_running = 1 WHERE id = ?", capped.ID)
		key := s.NewKey(t, capped, access.RoleClient)
		for range 20 {
			jobstest.SubmitAs(t, s, key, nil)
			s.Submit(t)
		}
		for i := range 12 {
			jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint("early", i)))
		}

		s.Exec(t, "UPDATE accounts SET max_running = 100 WHERE id = ?", capped.ID)
		require.NoError(t, s.Readier.Sweep(t.Context()))

		given := map[models.AccountID]int{}
		for i := range 10 {
			given[jobstest.LeaseNext(t, s, s.Worker(t, fmt.Sprint("late", i))).Job.AccountID]++
		}
		require.InDelta(t, 5, given[capped.ID], 1)
	})
}

func TestClaim(t *testing.T) {
	t.Parallel()

	for name, lose := range jobstest.LoseIndex {
		t.Run("AvoidsTheWorkerThatFailedTheJobForAWhile"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			job := s.Submit(t)
			one := s.Worker(t, "one")
			s.Exec(t, "UPDATE jobs SET avoid_worker_id = ?, avoid_until = clock_timestamp() + interval '1 minute'", one.WorkerID)
			lose(s)

			two := s.Worker(t, "two")
			require.Nil(t, jobstest.LeaseNext(t, s, one))
			behind := s.Submit(t)
			require.Equal(t, behind.ID, jobstest.LeaseNext(t, s, one).Job.ID, "what is behind it is not held up")
			require.Equal(t, job.ID, jobstest.LeaseNext(t, s, two).Job.ID)
		})

		t.Run("GivesAFailedJobToItsWorkerIfNoOtherCanRunIt"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			job := s.Submit(t)
			one, far := workerOf(t, s, "one", "any", "eu"), workerOf(t, s, "far", "any", "us")
			s.Exec(t, "UPDATE jobs SET require_region = true, region = 'eu', avoid_worker_id = ?, avoid_until = clock_timestamp() + interval '1 minute'", one.WorkerID)
			require.NoError(t, s.Readier.Ready(t.Context(), job.ID))
			lose(s)

			require.Nil(t, jobstest.LeaseNext(t, s, far))
			require.Equal(t, job.ID, jobstest.LeaseNext(t, s, one).Job.ID)
		})

		t.Run("GivesAJobThatRanOutOfMemoryOnlyToALargerGPU"+name, func(t *testing.T) {
			t.Parallel()

			s := jobstest.New(t)
			withGPUs(t, s, "small", "large")
			small, large := workerOf(t, s, "small", "small", "eu"), workerOf(t, s, "large", "large", "eu")
			raised := s.Submit(t)
			held := jobstest.LeaseNext(t, s, small)
			require.Equal(t, raised.ID, held.Job.ID)
			s.Exec(t, "UPDATE jobs SET gpu_rank = 1")
			behind := s.Submit(t)
			_, err := s.Attempts.Release(t.Context(), small, jobstest.FenceOf(held), models.FailPreempted)
			require.NoError(t, err)
			lose(s)

			require.Equal(t, behind.ID, jobstest.LeaseNext(t, s, small).Job.ID)
			require.Equal(t, raised.ID, jobstest.LeaseNext(t, s, large).Job.ID)
		})
	}

	t.Run("ForwardsAWakeForAJobThatItsWorkerFailed", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		failed, other := s.Worker(t, "failed"), s.Worker(t, "other")
		job := s.Submit(t)
		s.Exec(t, "UPDATE jobs SET avoid_worker_id = ?, avoid_until = clock_timestamp() + interval '1 minute'", failed.WorkerID)
		require.NoError(t, s.Notifier.Index.Remove(t.Context(), jobs.ReadyJob{Queue: job.Queue(), ID: job.ID, Account: job.AccountID,
			VirtualTime: -1}))
		found := make(chan *lease.Lease, 2)
		for i, worker := range []jobs.Principal{failed, other} {
			go func() {
				lease, _, _ := s.Leaser.Lease(t.Context(), worker, lease.LeaseCall{WorkerID: worker.WorkerID, Wait: lease.MaxLeaseWait})
				if lease != nil {
					found <- lease
				}
			}()
			testrun.Eventually(t, "the call waits", func() bool { return s.Notifier.Waiters.Waiting() == i+1 })
		}

		require.NoError(t, s.Readier.Ready(t.Context(), job.ID)) // wakes the earlier call

		got := <-found
		require.Equal(t, other.WorkerID, got.Attempt.WorkerID)
		s.Notifier.Waiters.Dismiss()
	})
}
