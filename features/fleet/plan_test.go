package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// poolOf is a pool with workers in these states, and the models that it can run.
func poolOf(least, most int, runs string, workers ...models.WorkerStatus) poolState {
	p := poolState{pool: &capacity.Pool{PoolSpec: capacity.PoolSpec{MinWorkers: least, MaxWorkers: most, GPUType: "any",
		Models: strings.Fields(runs)}}}
	for _, status := range workers {
		p.workers = append(p.workers, &models.Worker{Status: status})
	}
	return p
}

func queueOf(lane models.Tier, model string, depth, gpuSeconds float64) backlog.QueueDemand {
	return backlog.QueueDemand{Lane: lane, Kind: backlog.Kind{Model: model}, Depth: depth, GPUSeconds: gpuSeconds}
}

// costing is a pool of a capacity class, in the region eu, at a price.
func costing(class models.CapacityClass, price float64, p poolState) poolState {
	p.pool.CapacityClass, p.pool.PricePerHourUSD, p.pool.Region = class, price, "eu"
	return p
}

// needing is a queue whose jobs need something of a worker, and must run in a region.
func needing(needs models.Needs, region string, q backlog.QueueDemand) backlog.QueueDemand {
	q.Needs, q.Region = needs, region
	return q
}

func servingOnly(lane models.Tier, p poolState) poolState {
	p.pool.Tiers = []models.Tier{lane}
	return p
}

// of dedicates a pool to accounts.
func (p poolState) of(accounts ...models.AccountID) poolState {
	p.pool.Accounts = accounts
	return p
}

// queueOfAccount is an account's jobs of CRITICAL, a second each.
func queueOfAccount(account models.AccountID, depth float64) backlog.QueueDemand {
	q := queueOf(models.TierCritical, "m", depth, depth)
	q.AccountID = account
	return q
}

const (
	booting = models.WorkerBooting
	idle    = models.WorkerIdle
	busy    = models.WorkerBusy
)

func TestPlanOfOnePool(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		pool    poolState
		queues  []backlog.QueueDemand
		workers int
		reason  string
	}{
		"NothingWaits":    {poolOf(0, 4, "m"), nil, 0, "No jobs wait or run."},
		"KeepsTheMinimum": {poolOf(2, 4, "m", busy), nil, 2, "1 running job needs 1 worker; pool minimum is 2."},
		"StaysBelowTheMaximum": {poolOf(0, 4, "m", busy), []backlog.QueueDemand{queueOf("CRITICAL", "m", 4, 4)}, 4,
			"4 waiting and 1 running job need 5 workers; pool maximum is 4."},
		"CriticalJobsNeedAWorkerEach": {poolOf(0, 9, "m"), []backlog.QueueDemand{queueOf("CRITICAL", "m", 3, 900)}, 3,
			"3 waiting jobs need 3 workers."},
		"EnterpriseJobsStartIn30s": {poolOf(0, 9, "m"), []backlog.QueueDemand{queueOf("ENTERPRISE", "m", 10, 61)}, 3,
			"10 waiting jobs need 3 workers."},
		"NeverMoreWorkersThanJobs": {poolOf(0, 9, "m"), []backlog.QueueDemand{queueOf("ENTERPRISE", "m", 1, 3000)}, 1,
			"1 waiting job needs 1 worker."},
		"BatchJobsNeedOneWorkerTogether": {poolOf(0, 9, "m"), []backlog.QueueDemand{queueOf("BATCH", "m", 100, 1e6)}, 1,
			"100 waiting jobs need 1 worker."},
		"DueJobsNeedAWorkerEach": {poolOf(0, 99, "m", busy), []backlog.QueueDemand{needing("now", "", queueOf("BATCH", "m", 4, 1e4)),
			queueOf("BATCH", "m", 100, 1e6)}, 6, "104 waiting and 1 running job need 6 workers (4 jobs without slack before the deadline)."},
		"DueJobsComeAboveTheTarget": {poolOf(0, 99, "m"), []backlog.QueueDemand{needing("now", "", queueOf("ENTERPRISE", "m", 2, 2)),
			queueOf("ENTERPRISE", "m", 10, 61)}, 5, "12 waiting jobs need 5 workers (2 jobs without slack before the deadline)."},
		"LanesAddUp": {poolOf(0, 9, "m", busy, busy), []backlog.QueueDemand{queueOf("FREE", "m", 5, 1200),
			queueOf("PRO", "m", 5, 240)}, 6, "10 waiting and 2 running jobs need 6 workers."},
		"KindsOfALaneAddUpFirst": {poolOf(0, 9, "m n"), []backlog.QueueDemand{queueOf("PRO", "m", 1, 30), queueOf("PRO", "n", 1, 30)}, 1,
			"2 waiting jobs need 1 worker."},
		"IdleAndBootingWorkersAreNoDemand": {poolOf(0, 9, "m", idle, idle, idle, booting, booting), nil, 0, "No jobs wait or run."},
		"IgnoresJobsThatItCannotRun":       {poolOf(0, 9, "m"), []backlog.QueueDemand{queueOf("CRITICAL", "n", 3, 3)}, 0, "No jobs wait or run."},
		"CountsJobsBeyondItsMaximum": {poolOf(0, 0, "m"), []backlog.QueueDemand{queueOf("BATCH", "m", 3, 3)}, 0,
			"3 waiting jobs need 1 worker; pool maximum is 0."},
		"EmptyLanesNeedNothing": {poolOf(0, 9, "m"), []backlog.QueueDemand{queueOf("PRO", "m", 0, 0)}, 0, "No jobs wait or run."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := plan(snapshot{pools: []poolState{c.pool}, queues: c.queues})

			require.Equal(t, c.workers, got[0].workers)
			require.Equal(t, c.reason, got[0].reason)
		})
	}
}

func TestPlanSharesQueuesAmongPools(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		pools   []poolState
		queues  []backlog.QueueDemand
		workers []int
		waiting []int // how many of the waiting jobs count for each pool
	}{
		"CountsEachJobOnce": {
			[]poolState{poolOf(0, 9, "m"), poolOf(0, 9, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 4, 4)},
			[]int{4, 0}, []int{4, 0},
		},
		"ALaneCountsOnlyForPoolsThatServeIt": {
			[]poolState{servingOnly("BATCH", poolOf(0, 9, "m")), poolOf(0, 9, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 2, 4), queueOf("BATCH", "m", 1, 4)},
			[]int{1, 2}, []int{1, 2},
		},
		"ADedicatedPoolTakesItsAccountsOnly": {
			[]poolState{poolOf(0, 9, "m").of("a", "b"), poolOf(0, 9, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 2, 2), queueOfAccount("a", 1), queueOfAccount("c", 3)},
			[]int{1, 5}, []int{1, 5},
		},
		"AnAccountSpillsOverWhenItsPoolIsFull": {
			[]poolState{poolOf(0, 9, "m"), poolOf(0, 2, "m").of("a")},
			[]backlog.QueueDemand{queueOfAccount("a", 3)},
			[]int{1, 2}, []int{1, 2},
		},
		"WorkersOfADedicatedPoolLeaveOthersWaiting": {
			[]poolState{poolOf(0, 9, "m", idle, idle).of("a"), poolOf(0, 0, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 2, 2)},
			[]int{0, 0}, []int{0, 2},
		},
		"JobsCountForPoolsThatTheyBear": {
			[]poolState{costing(models.CapacitySpot, 1, poolOf(0, 9, "m")), costing(models.CapacityOnDemand, 2, poolOf(0, 9, "m"))},
			[]backlog.QueueDemand{
				needing("on-demand", "eu", queueOf("CRITICAL", "m", 2, 4)), needing("price<=1", "", queueOf("CRITICAL", "m", 1, 4)),
				needing("on-demand,price<=1", "", queueOf("CRITICAL", "m", 4, 4)), needing("", "us", queueOf("CRITICAL", "m", 3, 4)),
			},
			[]int{1, 2}, []int{1, 2},
		},
		"JobsWithSlackBootNoDearWorkers": {
			[]poolState{costing(models.CapacitySpot, 1, poolOf(0, 2, "m")), costing(models.CapacityOnDemand, 2, poolOf(0, 9, "m"))},
			[]backlog.QueueDemand{
				needing("cheap", "", queueOf("CRITICAL", "m", 4, 4)), needing("on-demand,now", "", queueOf("BATCH", "m", 3, 4)),
			},
			[]int{2, 3}, []int{4, 3},
		},
		"JobsWithSlackWaitTenMinutesForRunningWorkers": { // which end 4 renders of 300 s in that time
			[]poolState{costing(models.CapacitySpot, 1, poolOf(0, 9, "m", busy, busy))},
			[]backlog.QueueDemand{needing("cheap", "", queueOf("CRITICAL", "m", 4, 4*300)), needing("now", "", queueOf("CRITICAL", "m", 1, 300))},
			[]int{3}, []int{5},
		},
		"JobsWithSlackThatRunningWorkersDoNotStartBootOthers": {
			[]poolState{costing(models.CapacitySpot, 1, poolOf(0, 9, "m", busy, busy))},
			[]backlog.QueueDemand{needing("cheap", "", queueOf("CRITICAL", "m", 7, 7*300))},
			[]int{5}, []int{7},
		},
		"JobsWithSlackBootNoSpotWorkersThatCostMoreThanOnDemand": {
			[]poolState{costing(models.CapacitySpot, 3, poolOf(0, 9, "m", idle)), costing(models.CapacityOnDemand, 2, poolOf(0, 9, "m"))},
			[]backlog.QueueDemand{needing("cheap", "", queueOf("CRITICAL", "m", 4, 4))},
			[]int{1, 0}, []int{1, 0},
		},
		"JobsWithSlackBootTheSpotWorkersThatCostLess": {
			[]poolState{
				costing(models.CapacitySpot, 3, poolOf(0, 9, "m")), costing(models.CapacitySpot, 2, poolOf(0, 9, "m")),
				costing(models.CapacityOnDemand, 2, poolOf(0, 9, "m")),
			},
			[]backlog.QueueDemand{needing("cheap", "", queueOf("CRITICAL", "m", 4, 4))},
			[]int{0, 4, 0}, []int{0, 4, 0},
		},
		"JobsWithSlackBootDearSpotWorkersIfTheOnDemandOnesAreBusy": {
			[]poolState{costing(models.CapacitySpot, 3, poolOf(0, 9, "m")), costing(models.CapacityOnDemand, 2, poolOf(0, 1, "m", busy))},
			[]backlog.QueueDemand{needing("cheap", "", queueOf("CRITICAL", "m", 4, 4))},
			[]int{4, 1}, []int{4, 0},
		},
		"JobsWithSlackBootDearSpotWorkersIfTheyCannotRunOnOnDemandOnes": {
			[]poolState{costing(models.CapacitySpot, 3, poolOf(0, 9, "m")), costing(models.CapacityOnDemand, 2, poolOf(0, 9, "other"))},
			[]backlog.QueueDemand{needing("cheap", "", queueOf("BATCH", "m", 4, 4))},
			[]int{1, 0}, []int{4, 0},
		},
		"DueJobsTakeTheRoomThatIsLeft": {
			[]poolState{costing(models.CapacitySpot, 1, poolOf(0, 3, "m")), costing(models.CapacityOnDemand, 2, poolOf(0, 9, "m"))},
			[]backlog.QueueDemand{queueOf("PRO", "m", 2, 240), needing("now", "", queueOf("PRO", "m", 3, 3))},
			[]int{3, 2}, []int{3, 2},
		},
		"BatchNeedsOneWorkerTogether": {
			[]poolState{poolOf(0, 9, "m"), poolOf(0, 9, "m")},
			[]backlog.QueueDemand{queueOf("BATCH", "m", 100, 1e6)},
			[]int{1, 0}, []int{100, 0},
		},
		"UsesExistingWorkersFirst": {
			[]poolState{poolOf(0, 9, "m"), poolOf(0, 9, "m", idle, booting)},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 3, 3)},
			[]int{1, 2}, []int{1, 2},
		},
		"UsesWorkersThatThePoolKeepsFirst": {
			[]poolState{poolOf(0, 9, "m"), poolOf(2, 9, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 2, 2)},
			[]int{0, 2}, []int{0, 2},
		},
		"SpillsOverWhenAPoolIsFull": {
			[]poolState{poolOf(0, 2, "m", busy), poolOf(0, 9, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 4, 4)},
			[]int{2, 3}, []int{1, 3},
		},
		"SpillsOverByTheWaitTarget": {
			[]poolState{poolOf(0, 1, "m"), poolOf(0, 9, "m")},
			[]backlog.QueueDemand{queueOf("ENTERPRISE", "m", 9, 90)},
			[]int{1, 2}, []int{3, 6},
		},
		"ShowsTheRestInTheFirstPool": {
			[]poolState{poolOf(0, 1, "m"), poolOf(0, 1, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 5, 5)},
			[]int{1, 1}, []int{4, 1},
		},
		"GivesRoomToJobsWithoutAChoiceFirst": {
			[]poolState{poolOf(0, 2, "m n"), poolOf(0, 2, "m")},
			[]backlog.QueueDemand{queueOf("CRITICAL", "m", 2, 2), queueOf("CRITICAL", "n", 2, 2)},
			[]int{2, 2}, []int{2, 2},
		},
		"GivesRoomToTheFirstLaneFirst": {
			[]poolState{poolOf(0, 2, "m n"), poolOf(0, 2, "n")},
			[]backlog.QueueDemand{queueOf("BATCH", "n", 9, 9), queueOf("CRITICAL", "m", 2, 2)},
			[]int{2, 1}, []int{2, 9},
		},
		"FillsAWorkerWithKindsOfOneLane": {
			[]poolState{poolOf(0, 1, "m n"), poolOf(0, 9, "n")},
			[]backlog.QueueDemand{queueOf("ENTERPRISE", "m", 1, 10), queueOf("ENTERPRISE", "n", 3, 30)},
			[]int{1, 1}, []int{3, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var workers, waiting []int
			for _, d := range plan(snapshot{pools: c.pools, queues: c.queues}) {
				depth := 0
				for _, q := range d.demand.Queues {
					depth += q.Depth
				}
				workers, waiting = append(workers, d.workers), append(waiting, depth)
			}

			require.Equal(t, c.workers, workers)
			require.Equal(t, c.waiting, waiting)
		})
	}
}

func TestPlanUsesTheRenderTimesOfEachPool(t *testing.T) {
	t.Parallel()

	slow, fast := poolOf(0, 1, "m"), poolOf(0, 9, "m")
	slow.pool.GPUType, fast.pool.GPUType = "slow", "fast"
	times := estimate.NewRenderTimes([]*backlog.RenderTime{
		{Kind: backlog.Kind{Model: "m"}, GPUType: "slow", Ratio: 3, Samples: 1},
		{Kind: backlog.Kind{Model: "m"}, GPUType: "fast", Ratio: 1, Samples: 1},
	})

	got := plan(snapshot{pools: []poolState{slow, fast}, queues: []backlog.QueueDemand{queueOf("ENTERPRISE", "m", 7, 70)}, times: times})

	require.Equal(t, []LaneDemand{{Lane: "ENTERPRISE", Depth: 1, GPUSeconds: 30, Late: 1, need: 1}}, got[0].demand.Queues)
	require.Equal(t, []LaneDemand{{Lane: "ENTERPRISE", Depth: 6, GPUSeconds: 60, Late: 6, need: 2}}, got[1].demand.Queues)
	require.Equal(t, 2, got[1].workers)
}

func TestPlanDrainsTheLongestIdle(t *testing.T) {
	t.Parallel()

	now := time.Now()
	p := poolOf(1, 4, "m", busy, idle, idle, idle)
	p.pool.IdleSeconds = new(60)
	for i, id := range []models.WorkerID{"busy", "for 61 s", "for 90 s", "for 59 s"} {
		p.workers[i].ID = id
	}
	p.workers[1].IdleSince, p.workers[2].IdleSince, p.workers[3].IdleSince = now.Add(-61*time.Second), now.Add(-90*time.Second),
		now.Add(-59*time.Second)
	queues := []backlog.QueueDemand{queueOf("CRITICAL", "m", 2, 2)}

	all := plan(snapshot{now: now, pools: []poolState{p}})
	one := plan(snapshot{now: now, pools: []poolState{p}, queues: queues})

	require.Equal(t, []models.WorkerID{"for 90 s", "for 61 s"}, all[0].drain)
	require.Equal(t, []models.WorkerID{"for 90 s"}, one[0].drain)
}

func TestPlanOfManyPools(t *testing.T) {
	t.Parallel()

	named := func(name string, price float64, class models.CapacityClass, most int) poolState {
		p := poolOf(0, most, "m")
		p.pool.ID, p.pool.Name, p.pool.PricePerHourUSD, p.pool.CapacityClass = models.NewPoolID(), name, price, class
		return p
	}
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	wanted := func(s snapshot) map[string]int {
		all := map[string]int{}
		for _, d := range plan(s) {
			all[d.pool.Name] = d.workers
		}
		return all
	}
	queues := []backlog.QueueDemand{queueOf("CRITICAL", "m", 5, 5)}

	t.Run("FillsTheCheapestFirstAndSpotBeforeOnDemand", func(t *testing.T) {
		t.Parallel()
		s := snapshot{now: now, queues: queues, pools: []poolState{
			named("a-dear", 2, models.CapacitySpot, 9), named("b-safe", 1, models.CapacityOnDemand, 9), named("c-spot", 1, models.CapacitySpot, 3),
		}}

		require.Equal(t, map[string]int{"a-dear": 0, "b-safe": 2, "c-spot": 3}, wanted(s))
	})

	t.Run("FailsOverWhileAProviderRefusesAndBack", func(t *testing.T) {
		t.Parallel()
		s := snapshot{now: now, queues: queues, pools: []poolState{named("cheap", 1, models.CapacitySpot, 9),
			named("dear", 2, models.CapacitySpot, 9)}}
		s.pools[0].pool.PoolBackoff = capacity.PoolBackoff{BackoffUntil: now.Add(time.Minute), BackoffClass: "STOCKOUT", Refusals: 2}

		refused := wanted(s)
		reason := plan(snapshot{now: now, queues: queues, pools: s.pools[:1]})[0].reason
		s.now = now.Add(time.Minute)

		require.Equal(t, map[string]int{"cheap": 0, "dear": 5}, refused)
		require.Equal(t, "5 waiting jobs need 5 workers; the provider refused machines (STOCKOUT, 2 times in a row); next request at 31 Jan 12:01:00 UTC.", reason)
		require.Equal(t, map[string]int{"cheap": 5, "dear": 0}, wanted(s))
	})

	t.Run("CountsTheWorkersOfAPoolThatItCannotChange", func(t *testing.T) {
		t.Parallel()
		static := poolOf(0, 9, "m", idle, idle)
		static.pool.ID, static.pool.Name = models.NewPoolID(), "static"
		cloud := named("cloud", 1, models.CapacitySpot, 9)
		s := snapshot{now: now, queues: queues, pools: []poolState{static, cloud}}
		s.freeze([]*capacity.Pool{cloud.pool})

		require.Equal(t, map[string]int{"static": 2, "cloud": 3}, wanted(s))
	})
}

func TestPlanOfDearSpot(t *testing.T) {
	t.Parallel()

	spot, safe := poolOf(0, 9, "m"), poolOf(0, 9, "m")
	spot.pool.Name, spot.pool.CapacityClass, spot.pool.PricePerHourUSD = "spot", models.CapacitySpot, 3.5
	safe.pool.Name, safe.pool.CapacityClass, safe.pool.PricePerHourUSD = "safe", models.CapacityOnDemand, 3.06

	got := plan(snapshot{now: time.Now(), pools: []poolState{spot, safe}, queues: []backlog.QueueDemand{
		needing("cheap", "", queueOf("CRITICAL", "m", 4, 4)), needing("cheap", "", queueOf("BATCH", "m", 8, 8)),
	}})

	require.Equal(t, "No jobs wait or run; 12 jobs with slack can wait: the on-demand pool safe costs $3.06 instead of $3.5 per hour.",
		got[0].reason)
	require.Zero(t, got[0].workers+got[1].workers)
}
