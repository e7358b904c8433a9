package fleet

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

func TestPlanOfIdleWorkers(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	// idleFor is a pool at a price whose workers have been idle for so many seconds, and start in 100 s.
	idleFor := func(name string, price float64, most int, idleSeconds ...int) poolState {
		p := poolOf(0, most, "m")
		p.pool.ID, p.pool.Name, p.pool.PricePerHourUSD, p.start = models.NewPoolID(), name, price, Start{75 * time.Second, 25 * time.Second, true}
		for i, s := range idleSeconds {
			p.workers = append(p.workers, &models.Worker{ID: models.WorkerID(name + string(rune('1'+i))), Status: idle,
				IdleSince: now.Add(-time.Duration(s) * time.Second)})
		}
		return p
	}
	decide := func(pools ...poolState) []*decision { return plan(snapshot{now: now, pools: pools}) }

	t.Run("TheyStayAsLongAsAStartTakes", func(t *testing.T) {
		t.Parallel()
		d := decide(idleFor("a", 1, 9, 99, 100, 101))[0]

		require.Equal(t, []models.WorkerID{"a3", "a2"}, d.drain)
		require.Equal(t, "Idle workers leave after 1 min 40 s: as long as a boot and a load take.", d.stay.String())
	})

	t.Run("AnUnknownStartIsGuessed", func(t *testing.T) {
		t.Parallel()
		p := idleFor("a", 1, 9, 179, 180)
		p.start = Start{}

		require.Equal(t, []models.WorkerID{"a2"}, decide(p)[0].drain)
	})

	t.Run("TheSettingCounts", func(t *testing.T) {
		t.Parallel()
		p := idleFor("a", 1, 9, 299, 300)
		p.pool.IdleSeconds = new(300)
		d := decide(p)[0]

		require.Equal(t, []models.WorkerID{"a2"}, d.drain)
		require.Equal(t, "Idle workers leave after 5 min: the pool's scaleDownCooldownSeconds.", d.stay.String())
	})

	t.Run("TheyLeaveAtOnceIfNoJobIsExpected", func(t *testing.T) {
		t.Parallel()
		rare := snapshot{now: now, pools: []poolState{idleFor("a", 1, 9, 1)}}
		rare.expected = []Expected{{Lane: "PRO", Model: "m", JobsPerHour: 10, Error: 0.2}}
		often := rare
		often.expected = []Expected{{Lane: "PRO", Model: "m", JobsPerHour: 60, Error: 0.2}}
		unknown := rare
		unknown.queues = []backlog.QueueDemand{queueOf("BATCH", "n", 1, 1)}
		unknown.pools = []poolState{idleFor("a", 1, 9, 1)}
		unknown.pools[0].patient = 1

		first := plan(rare)[0]

		require.Equal(t, []models.WorkerID{"a1"}, first.drain)
		require.Equal(t, "Idle workers leave at once: about 12.0 jobs per hour are expected, and a start takes only 1 min 40 s.",
			first.stay.String())
		require.Empty(t, plan(often)[0].drain)
		require.Empty(t, plan(unknown)[0].drain, "jobs of BATCH are not in the forecast")
	})

	t.Run("TheDearLeaveAtOnceWhileACheaperPoolHasRoom", func(t *testing.T) {
		t.Parallel()
		free := decide(idleFor("cheap", 1, 9), idleFor("dear", 2, 9, 1, 2))
		full := decide(idleFor("cheap", 1, 1, 1), idleFor("dear", 2, 9, 1, 2))
		other := idleFor("cheap", 1, 9)
		other.pool.Models = []string{"n"}
		apart := decide(other, idleFor("dear", 2, 9, 1, 2))

		require.Equal(t, []models.WorkerID{"dear2", "dear1"}, free[1].drain)
		require.Equal(t, "Idle workers leave at once: the pool cheap costs less and has room for their work.", free[1].stay.String())
		require.Empty(t, full[1].drain)
		require.Empty(t, apart[1].drain)
	})

	t.Run("TheDearestLeaveInPlaceOfTheLongestIdle", func(t *testing.T) {
		t.Parallel()
		// The cheap pool is full, and two of its workers have been idle for long.
		all := decide(idleFor("cheap", 1, 3, 200, 150, 50), idleFor("dear", 2, 9, 10, 20, 5))

		require.Empty(t, all[0].drain)
		require.Equal(t, []models.WorkerID{"dear2", "dear1"}, all[1].drain)
	})

	t.Run("WorkersOfAPoolThatIsTooDearLeaveAfterTheirJobs", func(t *testing.T) {
		t.Parallel()
		p := idleFor("a", 3, 9, 1)
		p.pool.MaxPricePerHourUSD, p.pool.MinWorkers = 2, 1
		p.workers = append(p.workers, &models.Worker{ID: "busy", Status: busy}, &models.Worker{ID: "booting", Status: booting})
		d := decide(p)[0]

		require.Equal(t, []models.WorkerID{"a1", "busy"}, d.drain)
		require.Equal(t, "Idle workers leave at once: its price of $3 per hour is above its limit of $2.", d.stay.String())
	})

	t.Run("WarmWorkersAndTheReserveCost", func(t *testing.T) {
		t.Parallel()
		p := idleFor("a", 1.5, 9, 200, 200, 200)
		p.pool.WarmWorkers = 2
		d := decide(p)[0]

		require.Len(t, d.drain, 1)
		require.InDelta(t, 3, d.costOf(d.demand.Warm), 1e-9)
	})
}

func TestPlanCountsOnRunningWorkers(t *testing.T) {
	t.Parallel()

	workers := func(n int) (all []models.WorkerStatus) {
		for range n {
			all = append(all, busy)
		}
		return all
	}
	one := []backlog.QueueDemand{queueOf("PRO", "m", 3, 3*60)}

	// 20 workers end a job of a minute every 3 s, so that in 12 s, a tenth of the target, 4 jobs start.
	many := plan(snapshot{pools: []poolState{poolOf(0, 99, "m", workers(20)...)}, queues: one})[0]
	few := plan(snapshot{pools: []poolState{poolOf(0, 99, "m", workers(1)...)}, queues: one})[0]
	booted := poolOf(0, 99, "m")
	booted.start = Start{90 * time.Second, 10 * time.Second, true}
	late := plan(snapshot{pools: []poolState{booted}, queues: one})[0]

	require.Equal(t, 20, many.workers)
	require.Equal(t, 3, many.demand.Queues[0].Soon)
	require.Equal(t, 3, few.workers)
	require.Equal(t, 3, late.workers, "a worker that boots for 100 s has 20 s left of the wait target")
}

func TestPlanTriesAPoolWithFewMachines(t *testing.T) {
	t.Parallel()

	many := queueOf("CRITICAL", "m", 40, 40*60)
	of := func(q backlog.QueueDemand, perMachine int, change func(*poolState), workers ...models.WorkerStatus) *decision {
		p := poolOf(0, 99, "m", workers...)
		p.pool.WorkersPerMachine = perMachine
		change(&p)
		return plan(snapshot{pools: []poolState{p}, queues: []backlog.QueueDemand{q}})[0]
	}
	same := func(*poolState) {}

	untried := of(many, 1, same)
	require.Equal(t, 10, untried.workers)
	require.Equal(t, "40 waiting jobs need 40 workers; none of its machines has started yet, and no more than 10 boot until one has.",
		untried.reason)
	require.Equal(t, 10, of(many, 1, same, models.WorkerBooting, models.WorkerBooting).workers, "those that boot count")
	require.Equal(t, 20, of(many, 2, same).workers, "with two workers each")
	require.Equal(t, 40, of(many, 1, func(p *poolState) { p.start = NewStart(60, 0) }).workers, "some have booted before")
	require.Equal(t, 41, of(many, 1, same, busy).workers, "one has started")
	require.Equal(t, 40, of(needing("now", "", many), 1, same).workers, "these jobs have no slack")
}
