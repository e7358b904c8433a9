package estimate

import (
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/reelay/reelay/models/capacity"
	"github.com/stretchr/testify/require"
)

// workOf is n queued jobs of a model in a lane, each of so many GPU seconds.
func workOf(lane models.Tier, model string, n, seconds float64) backlog.QueueWork {
	return backlog.QueueWork{Lane: lane, Kind: backlog.Kind{Model: model}, Depth: n, GPUSeconds: n * seconds}
}

// workersOf is workers that offer models.
func workersOf(idle, busy int, names ...string) capacity.Capacity {
	return capacity.Capacity{Offer: models.Offer{Models: names}, Idle: idle, Busy: busy}
}

func drainsOf(work []backlog.QueueWork, capacity []capacity.Capacity, closed ...models.ClosedQueue) *Drains {
	return newDrains(work, capacity, new(catalogue.Snapshot), RenderTimes{}, closed)
}

func TestDrains(t *testing.T) {
	t.Parallel()
	const pro, batch = models.TierPro, models.TierBatch

	t.Run("DivideTheWorkByTheWorkersThatCanRunIt", func(t *testing.T) {
		t.Parallel()
		d := drainsOf([]backlog.QueueWork{workOf(pro, "wan", 100, 10)}, []capacity.Capacity{workersOf(1, 1, "wan"), workersOf(4, 0, "ltx")})

		require.InDelta(t, 500, *d.Of(pro, "wan").Seconds, 0, "by two of six workers")
		require.Equal(t, d.Of(pro, "wan"), d.All())
		require.Equal(t, d.Of(pro, ""), d.All())
	})

	t.Run("AddUpQueuesThatShareWorkers", func(t *testing.T) {
		t.Parallel()
		d := drainsOf([]backlog.QueueWork{workOf(pro, "wan", 10, 10), workOf(batch, "wan", 10, 20), workOf(pro, "ltx", 10, 1)},
			[]capacity.Capacity{workersOf(2, 0, "wan"), workersOf(1, 0, "ltx")})

		require.InDelta(t, 50, *d.Of(pro, "wan").Seconds, 0)
		require.InDelta(t, 100, *d.Of(batch, "wan").Seconds, 0)
		require.InDelta(t, 150, *d.All().Seconds, 0)
		require.InDelta(t, 10, *d.Of(pro, "ltx").Seconds, 0)
		require.InDelta(t, 50, *d.Of(pro, "").Seconds, 0, "the longer of two that share nothing")
	})

	t.Run("LetWorkersThatAreDoneHelp", func(t *testing.T) {
		t.Parallel()
		// The worker of both models helps with the long queue once the short one is empty.
		d := drainsOf([]backlog.QueueWork{workOf(pro, "short", 1, 10), workOf(batch, "long", 10, 10)},
			[]capacity.Capacity{workersOf(1, 0, "short", "long"), workersOf(1, 0, "long")})

		require.InDelta(t, 55, *d.All().Seconds, 0)
	})

	t.Run("LeaveOutWhatDoesNotStart", func(t *testing.T) {
		t.Parallel()
		far := workOf(pro, "wan", 3, 10)
		far.Region = "mars"
		dedicated := workOf(pro, "own", 5, 10)
		work := []backlog.QueueWork{
			workOf(pro, "wan", 2, 10), far, workOf(batch, "wan", 1000, 10), workOf(pro, "gone", 4, 10), dedicated, workOf(pro, "cold", 6, 10),
			workOf(pro, "resting", 7, 10),
		}
		resting := capacity.Capacity{Offer: models.Offer{Models: []string{"resting"}}, Paused: true}
		own := workersOf(1, 0, "own")
		own.Accounts = []models.AccountID{"a"}
		d := drainsOf(work, []capacity.Capacity{
			workersOf(1, 0, "wan"), {Offer: models.Offer{Models: []string{"cold"}}, Booting: 2, Most: 2}, resting, own,
			{Offer: models.Offer{Models: []string{"gone"}}},
		}, models.ClosedQueue{Lane: batch})

		all := d.All()
		require.InDelta(t, 20, *all.Seconds, 0)
		require.Equal(t, []LeftOut{{ObstaclePaused, 1000}, {ObstacleNoCapacity, 12}, {ObstacleNoWorker, 13}}, all.LeftOut)
		require.Equal(t, Drain{Seconds: new(20.0), LeftOut: []LeftOut{{ObstacleNoCapacity, 3}}}, d.Of(pro, "wan"), "those for another region")
		require.Equal(t, Drain{LeftOut: []LeftOut{{ObstaclePaused, 1000}}}, d.Of(batch, ""))
		require.True(t, d.Of(batch, "").Never())
		require.True(t, d.Of(pro, "gone").Never(), "a pool that may have no workers does not count")
		require.False(t, d.Of(pro, "cold").Never())
		require.Equal(t, Drain{Seconds: new(0.0)}, d.Of(models.TierFree, ""), "an empty lane is empty")
		require.Equal(t, "1000 jobs: paused", d.Of(batch, "").LeftOutText())
	})

	t.Run("LeaveOutPausedModelsAndHaltedLeases", func(t *testing.T) {
		t.Parallel()
		work, capacity := []backlog.QueueWork{workOf(pro, "wan", 2, 10), workOf(pro, "ltx", 1, 10)},
			[]capacity.Capacity{workersOf(1, 0, "wan", "ltx")}

		paused := drainsOf(work, capacity, models.ClosedQueue{Lane: pro, Model: "wan"}, models.ClosedQueue{Lane: batch})
		halted := drainsOf(work, capacity, models.ClosedQueue{Lane: pro, Model: "wan"}, models.ClosedQueue{Lane: pro, Halted: true})

		require.Equal(t, Drain{Seconds: new(10.0), LeftOut: []LeftOut{{ObstaclePaused, 2}}}, paused.All())
		require.Equal(t, Drain{LeftOut: []LeftOut{{ObstacleHalted, 3}}}, halted.All())
	})

	t.Run("CountEachKindByItsOwnPace", func(t *testing.T) {
		t.Parallel()
		fast, slow := workersOf(1, 0, "wan"), workersOf(1, 0, "wan")
		fast.GPUType, slow.GPUType = "fast", "slow"
		times := NewRenderTimes([]*backlog.RenderTime{
			{Kind: backlog.Kind{Model: "wan"}, GPUType: "fast", Ratio: 1, Samples: 1},
			{Kind: backlog.Kind{Model: "wan"}, GPUType: "slow", Ratio: 3, Samples: 1},
		})

		d := newDrains([]backlog.QueueWork{workOf(pro, "wan", 10, 10)}, []capacity.Capacity{fast, slow}, new(catalogue.Snapshot), times, nil)

		require.InDelta(t, 100, *d.All().Seconds, 0, "10 jobs × a mean of 20 s / 2 workers")
	})
}
