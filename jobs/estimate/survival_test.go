package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/reelay/reelay/jobs/estimate"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSurvival(t *testing.T) {
	t.Parallel()

	t.Run("IsTheProductLimitEstimate", func(t *testing.T) {
		t.Parallel()

		// With the three guessed lives of 30 minutes, 2 hours and 8 hours there are 7.
		s := estimate.NewSurvival([]estimate.Life{
			{time.Hour, true}, {time.Hour, true}, {90 * time.Minute, false}, {3 * time.Hour, true},
		})

		require.Zero(t, s.Lost(0))
		require.Zero(t, s.Lost(29*time.Minute))
		require.InDelta(t, 1.0/7, s.Lost(30*time.Minute), 1e-9)
		require.InDelta(t, 1.0/7, s.Lost(59*time.Minute), 1e-9)
		require.InDelta(t, 1-6.0/7*4/6, s.Lost(time.Hour), 1e-9)
		require.InDelta(t, 1-6.0/7*4/6*2/3, s.Lost(2*time.Hour), 1e-9, "one that ended otherwise counts until then")
		require.InDelta(t, 1-6.0/7*4/6*2/3*1/2, s.Lost(3*time.Hour), 1e-9)
		require.InDelta(t, 1, s.Lost(1000*time.Hour), 1e-9)
	})

	t.Run("FindsTheDistributionOfLivesThatAreCutShort", func(t *testing.T) {
		t.Parallel()

		random := rand.New(rand.NewPCG(1, 2))
		var lives []estimate.Life
		for range 2000 {
			life, other := random.ExpFloat64()*2, random.ExpFloat64()*3 // hours
			lives = append(lives, estimate.Life{Lived: time.Duration(min(life, other) * float64(time.Hour)), Taken: life < other})
		}
		s := estimate.NewSurvival(lives)
		for hours := 0.25; hours < 3; hours += 0.25 {
			require.InDelta(t, 1-math.Exp(-hours/2), s.Lost(time.Duration(hours*float64(time.Hour))), 0.05, hours)
		}
	})

	t.Run("GrowsWithTime", func(t *testing.T) {
		t.Parallel()

		rapid.Check(t, func(rt *rapid.T) {
			lives := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) estimate.Life {
				return estimate.Life{Lived: time.Duration(rapid.Int64Range(0, 1<<50).Draw(rt, "lived")), Taken: rapid.Bool().Draw(rt, "taken")}
			})).Draw(rt, "lives")
			s, at := estimate.NewSurvival(lives), rapid.Int64Range(-1, 1<<51)
			a, b := time.Duration(at.Draw(rt, "a")), time.Duration(at.Draw(rt, "b"))
			require.LessOrEqual(rt, s.Lost(min(a, b)), s.Lost(max(a, b)))
			require.GreaterOrEqual(rt, s.Lost(min(a, b)), 0.0)
			require.LessOrEqual(rt, s.Lost(max(a, b)), 1.0)
		})
	})
}

func TestLateByLoss(t *testing.T) {
	t.Parallel()

	late := estimate.LateByLoss
	require.InDelta(t, 0.5-0.01, late(100*time.Minute, 120*time.Minute, 120*time.Minute, 20*time.Minute), 1e-6,
		"half of the renders take longer than 100 minutes")
	require.InDelta(t, 0, late(time.Minute, 2*time.Minute, time.Hour, 10*time.Minute), 1e-9, "there is time for both")
	require.InDelta(t, 0, late(2*time.Hour, 3*time.Hour, -time.Hour, 10*time.Minute), 1e-6, "it is late in any case")
	require.InDelta(t, 1, late(time.Hour, time.Hour, time.Hour+time.Minute, 2*time.Minute), 1e-9, "all renders take as long")
}
