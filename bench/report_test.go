package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// measuredOf returns a measurement of Reelay, a limit and two peers.
func measuredOf(t Target, ours, limit, slow, fast []float64) *Result {
	rates := func(all []float64) (rounds []Figures) {
		for _, rate := range all {
			rounds = append(rounds, Figures{"rate": rate})
		}
		return rounds
	}
	return newResult(Measurement{Targets: []Target{t}}, []Contestant{
		{Name: reelay, Role: Ours}, {Name: "pgbench", Role: Limit}, {Name: "slow", Role: Peer}, {Name: "fast", Role: Peer},
	}, [][]Figures{rates(ours), rates(limit), rates(slow), rates(fast)})
}

func TestResult(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		target Target
		ratio  float64
		met    bool
	}{
		"at least, met":      {Target{Figure: "rate", Against: "slow", Bound: 2}, 2, true},
		"at least, missed":   {Target{Figure: "rate", Against: "fast", Bound: 1}, 0.5, false},
		"at most, met":       {Target{Figure: "rate", Against: "fast", Bound: 0.5, AtMost: true}, 0.5, true},
		"at most, missed":    {Target{Figure: "rate", Against: "slow", Bound: 1.9, AtMost: true}, 2, false},
		"a number of itself": {Target{Figure: "rate", Bound: 150}, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := measuredOf(test.target, []float64{100, 300, 200}, []float64{800}, []float64{100}, []float64{300, 500}).verdicts[0]

			require.Equal(t, []float64{200, 100, 300}, []float64{v.Ours, v.OursMin, v.OursMax})
			require.InDelta(t, 800, *v.Limit, 0)
			require.InDelta(t, test.ratio, *v.Ratio, 0)
			require.Equal(t, test.met, v.Met)
		})
	}

	t.Run("MissesATargetIfTheOtherContestantIsMissing", func(t *testing.T) {
		t.Parallel()

		v := measuredOf(Target{Figure: "rate", Against: "gone", Bound: 1, AtMost: true}, []float64{1}, nil, nil, nil).verdicts[0]

		require.Nil(t, v.Ratio)
		require.Nil(t, v.Limit)
		require.False(t, v.Met)
	})

	t.Run("IsPrintedWithTheDifferences", func(t *testing.T) {
		t.Parallel()

		var out bytes.Buffer
		report := &Report{}
		result := newResult(Measurement{Title: "a race", Unit: "laps",
			Targets: []Target{{Name: "fast", Figure: "rate", Against: "peer", Bound: 1}}},
			[]Contestant{{Name: reelay, Role: Ours}, {Name: "peer", Role: Peer, Differs: "runs downhill"}},
			[][]Figures{{{"rate": 12345, "p50": 1.234}, {"rate": 14345, "p50": 1.234}}, {{"rate": 20000}, {"rate": 20000}}})
		report.add(result, []string{"Faktory is not available: no network"})

		require.NoError(t, report.Print(&out))

		require.Contains(t, out.String(), "laps/s")
		require.Contains(t, out.String(), "13,345 (12,345–14,345)")
		require.Contains(t, out.String(), "1.23")
		require.Contains(t, out.String(), "peer: runs downhill")
		require.Contains(t, out.String(), "missing: Faktory is not available: no network")
		require.Contains(t, out.String(), "MISSED")
	})
}
