package checkpoints

import (
	"math"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// saved is a list of n equal durations.
func saved(n int, seconds float64) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = seconds
	}
	return all
}

func TestPlanOf(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		record   models.CheckpointRecord
		save     float64
		between  float64
		interval float64
	}{
		"the prior alone": {models.CheckpointRecord{CapacityClass: models.CapacitySpot}, 3, 4, 30},
		"the prior of a pool that is seldom preempted": {
			models.CheckpointRecord{CapacityClass: models.CapacityOnDemand}, 3, 96, 30,
		},
		"four measured saves are too few": {
			models.CheckpointRecord{CapacityClass: models.CapacitySpot, SaveSeconds: saved(4, 3), Saves: 4}, 3, 4, 30,
		},
		"measured saves that agree with the prior": {
			models.CheckpointRecord{CapacityClass: models.CapacitySpot, SaveSeconds: saved(31, 3), Saves: 31}, 3, 4, 294,
		},
		"one slow save does not count": {
			models.CheckpointRecord{CapacityClass: models.CapacitySpot, SaveSeconds: append(saved(30, 1), 600), Saves: 31}, 34.0 / 32, 4, 175,
		},
		"losses every 10 minutes": {
			models.CheckpointRecord{CapacityClass: models.CapacitySpot, SaveSeconds: saved(31, 3), Saves: 31, Losses: 5999, BusyHours: 996}, 3,
			1.0 / 6, 60,
		},
		"losses that ON_DEMAND does not expect": {
			models.CheckpointRecord{CapacityClass: models.CapacityOnDemand, SaveSeconds: saved(31, 3), Saves: 31, Losses: 4, BusyHours: 8}, 3,
			32 / 4.25, 403,
		},
		"no shorter than 10 s": {
			models.CheckpointRecord{CapacityClass: models.CapacitySpot, SaveSeconds: saved(31, 1e-9), Saves: 31, Losses: 99, BusyHours: 1}, 3.0 / 32,
			0.05, 10,
		},
		"no longer than 15 min": {
			models.CheckpointRecord{CapacityClass: models.CapacitySpot, SaveSeconds: saved(31, 30), Saves: 31, BusyHours: 1e6}, 933.0 / 32, 1000004,
			900,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := PlanOf(&c.record)

			require.InDelta(t, c.save, p.SaveSeconds, 1e-6)
			require.InDelta(t, c.between, p.HoursBetweenLosses, 1e-6)
			require.Equal(t, c.interval, p.IntervalSeconds)
			require.InDelta(t, c.save/c.interval+c.interval/(2*3600*c.between), p.Overhead, 1e-9)
		})
	}
}

// expectedWaste is the exact share of the time that is wasted on a worker that is lost at random,
// once in between seconds on average: it takes M·(e^((w+C)/M) − 1) to render w seconds and save
// them (Daly 2006, without restarts).
func expectedWaste(w, save, between float64) float64 {
	return between*math.Expm1((w+save)/between)/w - 1
}

func TestYoung(t *testing.T) {
	t.Parallel()

	t.Run("GivesKnownIntervals", func(t *testing.T) {
		t.Parallel()

		require.InDelta(t, 293.94, young(3, 4*3600), 0.01)
		require.InDelta(t, 84.85, young(1, 3600), 0.01)
		require.InDelta(t, 15.49, young(0.2, 600), 0.01)
	})

	t.Run("WastesLeast", func(t *testing.T) {
		t.Parallel()

		rapid.Check(t, func(t *rapid.T) {
			save := rapid.Float64Range(0.01, 60).Draw(t, "save")
			between := save * rapid.Float64Range(100, 1e6).Draw(t, "between/save")
			w := young(save, between)
			waste := expectedWaste(w, save, between)

			least := math.Inf(1)
			for factor := 0.5; factor <= 2; factor += 0.01 {
				least = min(least, expectedWaste(factor*w, save, between))
			}
			require.LessOrEqual(t, waste, 1.02*least, "no interval near it wastes 2 % less")
			require.Greater(t, expectedWaste(w/2, save, between), 1.1*waste)
			require.Greater(t, expectedWaste(2*w, save, between), 1.1*waste)
		})
	})
}
