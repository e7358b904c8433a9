package fleet

import (
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/estimate"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

func TestPlanDividesRegions(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	in := func(region string, class models.CapacityClass, most int, workers ...models.WorkerStatus) poolState {
		p := poolOf(0, most, "m", workers...)
		p.pool.Region, p.pool.CapacityClass, p.pool.PricePerHourUSD = region, class, 1
		if class == models.CapacityOnDemand {
			p.pool.PricePerHourUSD = 3
		}
		p.start = Start{estimate.BootGuess, estimate.LoadGuess, true}
		return p
	}
	spot := func(region string, most int, workers ...models.WorkerStatus) poolState {
		return in(region, models.CapacitySpot, most, workers...)
	}
	safe := func(region string, most int, workers ...models.WorkerStatus) poolState {
		return in(region, models.CapacityOnDemand, most, workers...)
	}
	refused := func(p poolState) poolState {
		p.pool.PoolBackoff = capacity.PoolBackoff{BackoffUntil: now.Add(time.Minute), BackoffClass: "STOCKOUT", Refusals: 1}
		return p
	}
	batchOnly := func(p poolState) poolState { return servingOnly("BATCH", p) }
	many := func(n int, status models.WorkerStatus) (all []models.WorkerStatus) {
		for range n {
			all = append(all, status)
		}
		return all
	}
	critical := func(n float64) []backlog.QueueDemand { return []backlog.QueueDemand{queueOf("CRITICAL", "m", n, n)} }
	some := map[string]capacity.PreemptionRate{"r": {Preempted: 2, WorkerHours: 2}}
	storm := map[string]capacity.PreemptionRate{"r": {Preempted: 3, WorkerHours: 10}}

	for name, c := range map[string]struct {
		pools     []poolState
		queues    []backlog.QueueDemand
		preempted map[string]capacity.PreemptionRate
		workers   []int
		reason    string // of the last pool
	}{
		"NothingIsNeeded":      {[]poolState{spot("r", 99), safe("r", 99)}, nil, nil, []int{0, 0}, "No jobs wait or run."},
		"ThreeWorkersStaySpot": {[]poolState{spot("r", 99), safe("r", 99)}, critical(3), nil, []int{3, 0}, "No jobs wait or run."},
		"OneOfFourIsOnDemand": {[]poolState{spot("r", 99), safe("r", 99)}, critical(4), nil, []int{3, 1},
			"No jobs wait or run; r needs 4 workers, at least 1 of them on-demand."},
		"TenHaveAReserve": {[]poolState{spot("r", 99), safe("r", 99)}, critical(10), nil, []int{7, 4},
			"No jobs wait or run; r needs 10 workers, at least 3 of them on-demand, and 1 more in reserve."},
		"NoReserveWhileFewAreTakenAway": {[]poolState{spot("r", 99), safe("r", 99)}, critical(10),
			map[string]capacity.PreemptionRate{"r": {WorkerHours: 100}}, []int{7, 3},
			"No jobs wait or run; r needs 10 workers, at least 3 of them on-demand."},
		"SpotAlone":                 {[]poolState{spot("r", 99)}, critical(20), nil, []int{20}, "20 waiting jobs need 20 workers."},
		"OnDemandAlone":             {[]poolState{safe("r", 99)}, critical(20), nil, []int{20}, "20 waiting jobs need 20 workers."},
		"AnotherRegionDoesNotCount": {[]poolState{spot("r", 99), safe("q", 99)}, critical(10), nil, []int{10, 0}, "No jobs wait or run."},
		"OnDemandIsOut": {[]poolState{spot("r", 99), refused(safe("r", 99))}, critical(10), nil, []int{11, 0},
			"No jobs wait or run; r needs 10 workers, at least 3 of them on-demand, and 1 more in reserve."},
		"SpotIsOut": {[]poolState{refused(spot("r", 99)), safe("r", 99)}, critical(10), nil, []int{0, 10},
			"10 waiting jobs need 10 workers; r needs 10 workers, at least 3 of them on-demand."},
		"OnDemandIsSmall": {[]poolState{spot("r", 99), safe("r", 2)}, critical(10), nil, []int{9, 2},
			"No jobs wait or run; r needs 10 workers, at least 3 of them on-demand, and 1 more in reserve."},
		"BusyWorkersStay": {[]poolState{spot("r", 99, many(10, busy)...), safe("r", 99)}, nil, nil, []int{7, 4},
			"No jobs wait or run; r needs 10 workers, at least 3 of them on-demand, and 1 more in reserve."},
		"BusyOnDemandIsEnough": {[]poolState{spot("r", 99, many(5, busy)...), safe("r", 99, many(5, busy)...)}, nil, nil, []int{5, 5},
			"5 running jobs need 5 workers; r needs 10 workers, at least 3 of them on-demand."},
		"BatchPoolsDoNotCount": {[]poolState{batchOnly(spot("r", 99, many(10, busy)...)), safe("r", 99)}, nil, nil, []int{10, 0},
			"No jobs wait or run."},
		"JobsWithSlackDoNotCount": {[]poolState{spot("r", 99), safe("r", 99)}, []backlog.QueueDemand{needing("cheap", "", critical(20)[0])}, nil,
			[]int{20, 0}, "No jobs wait or run."},
		"AStormHalvesTheSpotShare": {[]poolState{spot("r", 99), safe("r", 99)}, critical(10), storm, []int{4, 7},
			"No jobs wait or run; r needs 10 workers, at least 6 of them on-demand, because 30 % of its spot workers were preempted in the last hour, and 1 more in reserve."},
		"TwoPreemptionsAreNoStorm": {[]poolState{spot("r", 99), safe("r", 99)}, critical(3),
			map[string]capacity.PreemptionRate{"r": {Preempted: 2, WorkerHours: 3}}, []int{3, 0}, "No jobs wait or run."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if c.preempted == nil {
				c.preempted = some
			}

			all := plan(snapshot{now: now, pools: c.pools, queues: c.queues, preempted: c.preempted, policy: DefaultPolicy})

			var workers []int
			for _, d := range all {
				workers = append(workers, d.workers)
			}
			require.Equal(t, c.workers, workers)
			require.Equal(t, c.reason, all[len(all)-1].reason)
		})
	}

	t.Run("JobsOfBatchDoNotCount", func(t *testing.T) {
		t.Parallel()
		p := spot("r", 99, many(10, busy)...)
		p.patient = 7

		all := plan(snapshot{now: now, pools: []poolState{p, safe("r", 99)}, policy: DefaultPolicy})

		require.Equal(t, []int{10, 0}, []int{all[0].workers, all[1].workers})
	})

	t.Run("PoolsOfOtherModelsDoNotCount", func(t *testing.T) {
		t.Parallel()
		other := safe("r", 99)
		other.pool.Models = []string{"n"}

		all := plan(snapshot{now: now, pools: []poolState{spot("r", 99), other}, queues: critical(10), policy: DefaultPolicy})

		require.Equal(t, []int{10, 0}, []int{all[0].workers, all[1].workers})
	})
}
