package fleet

import (
	"testing"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// historyOf has the jobs of each hour before now, of a lane; of the current hour too.
func historyOf(now time.Time, hours int, lane models.Tier, jobs func(hour time.Time) float64) (h models.ArrivalHistory) {
	for i := hours; i >= 0; i-- {
		at := now.Truncate(time.Hour).Add(-time.Duration(i) * time.Hour)
		if n := jobs(at); n > 0 {
			h.Hours = append(h.Hours, models.ArrivalHour{Model: "m", Tier: lane, Hour: at, Jobs: n, GPUSeconds: 60 * n})
		}
	}
	h.Since = now.Truncate(time.Hour).Add(-time.Duration(hours) * time.Hour)
	return h
}

func TestForecast(t *testing.T) {
	t.Parallel()

	// Each day at 9, ten times as many jobs come as in other hours.
	rush := func(at time.Time) float64 {
		if at.Hour() == 9 {
			return 1000
		}
		return 100
	}
	before9 := time.Date(2026, 1, 30, 8, 59, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		hours     int
		jobs      func(time.Time) float64
		now       time.Time
		rate, off float64 // the error
	}{
		"KnowsTheRushOfOtherWeeks": {5 * week, rush, before9, 1000, 0},
		"KnowsTheRushOfYesterday":  {3 * day, rush, before9, 1000, 0},
		"SeesNoFutureInOneDay":     {8, func(time.Time) float64 { return 100 }, before9, 198.333, 0},
		"IsScaledByTheLastHour": {5 * week, func(at time.Time) float64 {
			if before9.Sub(at) < 2*time.Hour {
				return 3 * rush(at)
			}
			return rush(at)
		}, before9, 1000 * (298.333 + 10) / (100 + 10), 0.1},
		"KnowsNothingInTheBeginning": {0, rush, before9, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := historyOf(c.now, c.hours, "PRO", c.jobs)

			all := Forecast(history, c.now, 2*time.Minute)

			if c.rate == 0 {
				require.Empty(t, all)
				return
			}
			require.Len(t, all, 1)
			require.InEpsilon(t, c.rate, all[0].JobsPerHour, 0.5)
			require.InDelta(t, c.off, all[0].Error, 0.15)
		})
	}

	t.Run("SaysHowFarItIsOff", func(t *testing.T) {
		t.Parallel()
		wild := func(at time.Time) float64 { return float64(1 + 997*(at.Unix()/3600%11)%500) }

		all := Forecast(historyOf(before9, 5*week, "PRO", wild), before9, 2*time.Minute)

		require.Greater(t, all[0].Error, 0.3)
	})

	t.Run("LeavesLanesWithoutATargetAlone", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, Forecast(historyOf(before9, 5*week, "BATCH", rush), before9, time.Minute))
	})
}

func TestPlanBootsForWhatIsExpected(t *testing.T) {
	t.Parallel()

	pro := func(perHour, off float64) []Expected {
		return []Expected{{Lane: "PRO", Model: "m", JobsPerHour: perHour, Error: off, seconds: 60}}
	}
	withPatient := func(p poolState, n int) poolState { p.patient = n; return p }
	for name, c := range map[string]struct {
		pool     poolState
		expected []Expected
		workers  int
		reason   string
	}{
		"LittlesLaw": {poolOf(0, 99, "m", busy, busy), pro(600, 0), 10,
			"2 running jobs need 2 workers; 10 workers with the forecast (600 jobs/h ± 0 %)."},
		"ALargeErrorAddsLess": {poolOf(0, 99, "m", busy, busy), pro(600, 0.6), 4,
			"2 running jobs need 2 workers; 4 workers with the forecast (600 jobs/h ± 60 %)."},
		"AnErrorAbove1":    {poolOf(0, 99, "m", busy, busy), pro(600, 2), 2, "2 running jobs need 2 workers."},
		"RareJobsKeepNone": {poolOf(0, 99, "m"), pro(59, 0), 0, "No jobs wait or run."},
		"FewerThanNeeded":  {poolOf(0, 99, "m", busy, busy, busy), pro(60, 0), 3, "3 running jobs need 3 workers."},
		"BesidePatientJobs": {withPatient(poolOf(0, 99, "m", busy, busy), 2), pro(60, 0), 3,
			"2 running jobs need 2 workers; 3 workers with the forecast (60 jobs/h ± 0 %)."},
		"TheLimitHolds": {poolOf(0, 5, "m"), pro(600, 0), 5, "No jobs wait or run; 5 workers with the forecast (600 jobs/h ± 0 %)."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := plan(snapshot{pools: []poolState{c.pool}, expected: c.expected, policy: Policy{Forecast: true}})[0]

			require.Equal(t, c.workers, got.workers)
			require.Equal(t, c.reason, got.reason)
			require.Zero(t, plan(snapshot{pools: []poolState{c.pool}, expected: c.expected})[0].workers-c.pool.counted())
		})
	}
}

// counted is how many workers are busy.
func (p poolState) counted() (n int) {
	for _, w := range p.workers {
		if w.Status == busy {
			n++
		}
	}
	return n
}
