package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }

// A short soak, so that the long one goes on working: no fault of it waits until
// leases run out.
func TestSoak(t *testing.T) {
	t.Parallel()
	o := options{Seed: 1, Minutes: 0.3, Agents: 6, Bin: t.TempDir()}
	build := exec.Command("go", "build", "-o", o.Bin, "github.com/reelay/reelay/cmd/reelay", "github.com/reelay/reelay/cmd/reelay-agent")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())

	report, err := o.soak(t.Context())

	require.NoError(t, err)
	require.Empty(t, report.Failures)
	require.Positive(t, report.Completed)
	require.Equal(t, report.Completed, report.Videos)
}

func TestShuffled(t *testing.T) {
	t.Parallel()

	t.Run("BringsEveryKindFirst", func(t *testing.T) {
		t.Parallel()

		deck := shuffled(allFaults, rand.New(rand.NewPCG(1, 1)))

		names := map[string]bool{}
		for _, card := range deck[:len(allFaults)] {
			names[card.name] = true
		}
		require.Len(t, names, len(allFaults))
	})

	t.Run("RepeatsItselfByTheSeed", func(t *testing.T) {
		t.Parallel()

		order := func(seed uint64) (names []string) {
			for _, card := range shuffled(allFaults, rand.New(rand.NewPCG(seed, 1))) {
				names = append(names, card.name)
			}
			return names
		}

		require.Equal(t, order(7), order(7))
		require.NotEqual(t, order(7), order(8))
	})
}

func TestJudge(t *testing.T) {
	t.Parallel()

	sound := func() *report {
		return &report{verdict: &verdict{}, Met: map[string]int{metFlush: 1}}
	}
	for name, spoil := range map[string]func(*report){
		"ALostJob":             func(r *report) { r.Lost = []string{"job_1"} },
		"ADoubledJob":          func(r *report) { r.Duplicated = []string{"job_1"} },
		"AWrongVideo":          func(r *report) { r.WrongVideos = []string{"job_1"} },
		"ABrokenInvariant":     func(r *report) { r.Breaches = []string{"not so"} },
		"AnAcceptedStaleWrite": func(r *report) { r.Met[badStaleWrite] = 1 },
		"AFaultItNeverMet":     func(r *report) { r.Met[metFlush] = 0 },
	} {
		t.Run("FailsFor"+name, func(t *testing.T) {
			t.Parallel()

			r := sound()
			spoil(r)
			r.judge([]string{metFlush})

			require.Len(t, r.Failures, 1)
		})
	}

	t.Run("PassesWithoutAny", func(t *testing.T) {
		t.Parallel()

		r := sound()
		r.judge([]string{metFlush})

		require.Empty(t, r.Failures)
	})
}

func TestRecovery(t *testing.T) {
	t.Parallel()

	t.Run("TellsMedianAndTail", func(t *testing.T) {
		t.Parallel()

		var r recovery
		for i := range 100 {
			r.add(time.Duration(100-i) * time.Second)
		}
		r.close()

		require.Equal(t, []float64{100, 51, 96, 100}, []float64{float64(r.N), r.P50, r.P95, r.Max})
	})

	t.Run("CountsAsGoneOnlyWhenAllAre", func(t *testing.T) {
		t.Parallel()

		at := func(second int) time.Time { return time.Unix(int64(second), 0) }
		a := &process{outages: []outage{{at(0), at(10)}, {at(20), at(30)}}}
		b := &process{outages: []outage{{at(5), at(25)}}}

		require.Equal(t, []outage{{at(5), at(10)}, {at(20), at(25)}}, common([]*process{a, b}))
	})
}

func TestParse(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--minutes", "0"}, {"--minutes", "NaN"}, {"--agents", "1"}, {"--bin", "/nowhere"}, {"now"}} {
		_, err := parse(args)

		require.Error(t, err, args)
	}
	require.True(t, slices.IsSorted([]int{len(mustSoon), len(must)}))
}
