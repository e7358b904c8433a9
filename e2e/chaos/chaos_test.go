package main

import (
	"io"
	"math/rand/v2"
	"net"
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
	o := options{Seed: 1, Minutes: 0.3, Agents: 6, Nodes: 100, Bin: t.TempDir()}
	build := exec.Command("go", "build", "-o", o.Bin, "github.com/reelay/reelay/cmd/reelay", "github.com/reelay/reelay/cmd/reelay-agent")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())

	report, err := o.soak(t.Context())

	require.NoError(t, err)
	require.Empty(t, report.Failures)
	require.Positive(t, report.Completed)
	require.Equal(t, report.Completed, report.Videos)
	require.Equal(t, 100, report.Graph.Nodes)
}

func TestGraph(t *testing.T) {
	t.Parallel()

	g := newGraph(maxGraph, rand.New(rand.NewPCG(1, 1)))
	require.Len(t, g.nodes, maxGraph)
	require.Equal(t, g, newGraph(maxGraph, rand.New(rand.NewPCG(1, 1))))
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	g = &graph{nodes: []graphNode{{key: "a"}, {key: "b"}, {key: "c", after: []int{0, 1}}}}
	sound := func() []ran {
		return []ran{
			{Key: "a", Status: "COMPLETED", Succeeded: 1, Completions: 1, Began: at(0), CompletedAt: at(1), CompletedBy: "7"},
			{Key: "b", Status: "COMPLETED", Succeeded: 1, Completions: 1, Began: at(0), CompletedAt: at(2), CompletedBy: "8"},
			{Key: "c", Status: "COMPLETED", Succeeded: 1, Completions: 1, QueuedAt: at(2), QueuedBy: "8", Began: at(3), CompletedAt: at(4)},
		}
	}
	require.Empty(t, g.compare(sound()))
	for says, spoil := range map[string]func([]ran){
		`node b is "FAILED"`:            func(r []ran) { r[1].Status = "FAILED" },
		"2 attempts that succeeded":     func(r []ran) { r[1].Succeeded = 2 },
		"2 completions":                 func(r []ran) { r[2].Completions = 2 },
		"before b was completed":        func(r []ran) { r[2].Began = at(1) },
		"was queued at":                 func(r []ran) { r[2].QueuedAt = at(1) },
		"completed none of its parents": func(r []ran) { r[2].QueuedBy = "9" },
	} {
		rows := sound()
		spoil(rows)
		require.Len(t, g.compare(rows), 1, says)
		require.Contains(t, g.compare(rows)[0], says)
	}
	require.Len(t, g.compare(sound()[:2]), 2)
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

func TestWave(t *testing.T) {
	t.Parallel()

	at := func(second float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(second * float64(time.Second)))
	}
	w := &wave{
		machines: map[string]*machine{"a": {killed: at(2)}, "b": {notice: at(1), killed: at(11)}, "c": {killed: at(2)}, "d": {killed: at(2)}},
		leased: []leased{
			{Attempt: "resumed", Instance: "a", Step: 27, At: at(0)}, {Attempt: "again", Instance: "b", Step: 3, At: at(0.5)},
			{Attempt: "cancelled", Instance: "c", Step: 9, At: at(0)}, {Attempt: "completed", Instance: "d", Step: 99, At: at(0)},
			{Attempt: "elsewhere", Instance: "e", Step: 9, At: at(0)},
		},
	}

	w.count(map[string]outcome{
		"resumed": {Status: "LOST", Next: at(33), From: new(20)}, "again": {Status: "RELEASED", Next: at(3)},
		"cancelled": {Status: "LOST", Next: time.Unix(0, 0)}, "completed": {Status: "SUCCEEDED"},
	})

	require.Equal(t, []int{3, 1, 1, 1}, []int{w.Interrupted, w.Resumed, w.Again, w.Over})
	require.Equal(t, []float64{3.5, 9}, w.WorkLost.seconds, "29 steps at the loss, and 3.5")
	require.Equal(t, []float64{2, 31}, w.Running.seconds)

	t.Run("FailsIfAJobLosesMoreThanAnInterval", func(t *testing.T) {
		t.Parallel()
		lossy := &wave{WorkLost: &recovery{Max: reclaimInterval + saveSteps + 1}}
		r := &report{verdict: &verdict{FailedBy: map[string]int{"POISON": 1}}, Waves: []*wave{lossy}}

		r.judge(nil)

		require.Len(t, r.Failures, 2)
	})
}

func TestMeter(t *testing.T) {
	t.Parallel()

	m, second := newMeter(), time.Unix(1000, 0)
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	_, err := metered{client, m}.Write([]byte("POST /graphql HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.Equal(t, 2, m.peak(time.Now().Add(-time.Minute), time.Now()))
	m.add(30, second)
	m.add(10, second.Add(time.Second))

	require.Equal(t, 30, m.peak(second, second.Add(5*time.Second)))
	require.Equal(t, 20, m.mean(second.Add(2*time.Second), 2))
}

func TestParse(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--minutes", "0"}, {"--minutes", "NaN"}, {"--agents", "1"}, {"--reclaim", "-1"}, {"--workflow", "10001"},
		{"--bin", "/nowhere"}, {"--upgrade", "/nowhere"}, {"--upgrade", ".", "--reclaim", "1"}, {"now"}} {
		_, err := parse(args)

		require.Error(t, err, args)
	}
	require.True(t, slices.IsSorted([]int{len(mustSoon), len(must)}))
}
