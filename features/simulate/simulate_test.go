package simulate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// exact is a scenario in which nothing is random: machines boot in 10 s and load in 5 s, and jobs
// take 100 s. The jobs arrive at these seconds.
func exact(t *testing.T, workers int, more string, at ...float64) *Scenario {
	t.Helper()
	folder := t.TempDir()
	times := "seconds\n"
	for _, a := range at {
		times += fmt.Sprintln(a)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "times.csv"), []byte(times), 0o600))
	s, err := Read("exact.yaml", folder, fmt.Appendf(nil, `
hours: 0.1
workload:
  - { tier: PRO, model: drill, gpuSeconds: 100, arrivals: { shape: times, file: times.csv } }
pools:
  - { name: p, provider: local, region: here, gpuType: any, models: [drill], minWorkers: %d, maxWorkers: %[1]d, pricePerHourUsd: 3.6 }
%s`, workers, more))
	require.NoError(t, err)
	return s
}

const machines = `machines: { bootSeconds: { median: 10 }, loadSeconds: { median: 5 }, restoreSeconds: { median: 1 }, detectSeconds: 30 }
`

func run(t *testing.T, s *Scenario) *Result {
	t.Helper()
	r, err := Run(context.Background(), s, nil)
	require.NoError(t, err)
	require.InEpsilon(t, r.PaidSeconds, r.Seconds.Total(), 1e-9, "each paid second is in one class")
	require.Equal(t, r.Jobs, r.Completed+r.Unfinished)
	require.Zero(t, r.Lost)
	return r
}

func TestTwoWorkersThreeJobs(t *testing.T) {
	t.Parallel()

	// The machines boot from 0 to 10. The first two jobs load for 5 s and end at 205 and 206. The
	// third waits for the first machine, which has the model loaded.
	r := run(t, exact(t, 2, machines+"checkpoints: { policy: none }", 100, 101, 102))
	require.Equal(t, 3, r.Completed)
	require.Equal(t, Quantiles{N: 3, P95: 103, P99: 103, Max: 103}, r.Lanes[0].Wait)
	require.Equal(t, Quantiles{N: 3, P50: 105, P95: 203, P99: 203, Max: 203}, r.Lanes[0].Done)
	require.InDelta(t, 720, r.PaidSeconds, 1e-6)
	require.InDelta(t, 0.72, r.CostUSD, 1e-9)
	for class, c := range map[string][2]float64{
		"boot": {20, r.Seconds.Boot}, "load": {10, r.Seconds.Load}, "idle": {390, r.Seconds.Idle},
		"wasted": {0, r.Seconds.Wasted}, "useful": {300, r.Seconds.Useful},
	} {
		require.InDelta(t, c[0], c[1], 1e-6, class)
	}
}

// TestPreemption renders one job from 105. It is preempted at 180, after two checkpoints of 2 s,
// each 30 s of work, and 11 s.
func TestPreemption(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		notice, policy           string
		done, recovery           float64
		lost, wasted, load, most float64
	}{
		// It is queued again at 210, when the loss is noticed. The machine that replaces it loads and
		// restores until 216, and renders the other 40 s with one more checkpoint.
		"WithoutNotice": {"0", "fixed", 158, 36, 11, 17, 11, 11},
		// It saves at the notice until 182. The new machine boots from 181 to 191, and loads and
		// restores until 197. 29 s of work are left.
		"WithNotice": {"30", "fixed", 126, 17, 0, 6, 11, 0},
		// The notice is too short for a checkpoint, but long enough to be seen: queued at 181.
		"WithAShortNotice": {"1", "fixed", 139, 16, 12, 18, 11, 12},
		// All is rendered again from 215.
		"WithoutCheckpoints": {"0", "none", 215, 35, 75, 75, 10, 75},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := exact(t, 1, machines+`
checkpoints: { policy: `+c.policy+`, seconds: 30, saveSeconds: { median: 2 } }
reclaims: [{ atHour: 0.05, share: 1, noticeSeconds: `+c.notice+` }]`, 100)
			s.pools[0].MaxWorkers = 2 // the machine that got the notice counts until it is gone
			r := run(t, s)
			require.Equal(t, 1, r.Interruptions)
			require.InDelta(t, c.done, r.Lanes[0].Done.Max, 1e-6, "done")
			require.InDelta(t, c.recovery, r.Recovery.Max, 1e-6, "recovery")
			require.InDelta(t, c.lost, r.LostSeconds, 1e-6, "rendered again")
			require.InDelta(t, c.most, r.MostLost, 1e-6, "lost at once")
			require.InDelta(t, c.wasted, r.Seconds.Wasted, 1e-6, "wasted")
			require.InDelta(t, c.load, r.Seconds.Load, 1e-6, "load")
			require.InDelta(t, 100, r.Seconds.Useful, 1e-6, "useful")
		})
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "t.json"), []byte(`{"metadata": {"gap_seconds": 60}, "data": [2, 2, 0, 2]}`), 0o600))
	s := exact(t, 2, machines+"traces: [{ pool: p, file: "+filepath.Join(folder, "t.json")+" }]", 20, 20)
	r := run(t, s)
	require.Equal(t, 2, r.Completed)
	require.Equal(t, 4, r.Preemptions, "at 120 and, as the trace begins again after 240, at 360")
	require.Positive(t, r.Refused)
}

const mixed = `
hours: 3
workload:
  - { tier: ENTERPRISE, accounts: 3, jobs: 600, model: ltx-video, durationSeconds: 5 }
  - { tier: FREE, accounts: 40, jobs: 300, model: wan-1.3b, durationSeconds: 2, arrivals: { shape: burst, atHour: 1, minutes: 10 } }
  - { tier: BATCH, accounts: 2, jobs: 200, model: wan-1.3b, durationSeconds: 5, arrivals: { shape: diurnal, peakHour: 2, peakRatio: 4 } }
pools:
  - { name: a, provider: gce, region: r1, gpuType: L4, models: [ltx-video, wan-1.3b], minWorkers: 1, maxWorkers: 20, pricePerHourUsd: 0.5 }
  - { name: b, provider: gce, region: r2, gpuType: H100, capacityClass: ON_DEMAND, models: [ltx-video], maxWorkers: 10, pricePerHourUsd: 3 }
machines: { bootSeconds: { median: 60, p95: 700 }, loadSeconds: { median: 20, p95: 60 }, renderRatio: { median: 1, p95: 2 }, gpuRatios: { L4: 2 },
  preemptionsPerHour: 3, detectSeconds: 20, NOTICE }
checkpoints: { saveSeconds: { median: 1, p95: 5 } }
outages: [{ region: r1, fromHour: 1.5, toHour: 1.8 }]
stockouts: [{ pool: b, fromHour: 0, toHour: 0.5 }]
prices: [{ pool: a, atHour: 1, pricePerHourUsd: 0.9 }]
reclaims: [{ atHour: 2, share: 0.7, withinSeconds: 60, noticeSeconds: 5 }]
`

func TestConservation(t *testing.T) {
	t.Parallel()

	for _, notice := range []string{"noticeSeconds: 0", "noticeSeconds: 2", "noticeSeconds: 120"} {
		s, err := Read("mixed.yaml", "", []byte(strings.Replace(mixed, "NOTICE", notice, 1)))
		require.NoError(t, err)
		one := run(t, s)
		require.Equal(t, 1100, one.Completed)
		require.Positive(t, one.Interruptions)
		again := run(t, s)
		require.Equal(t, one, again, "the same seed gives the same result")
		s.Seed++
		require.NotEqual(t, one.PaidSeconds, run(t, s).PaidSeconds, "another seed gives another")
	}
}

// TestOrder compares the order in which one worker starts jobs with the rules of fairqueue,
// applied to all accounts at each start.
func TestOrder(t *testing.T) {
	t.Parallel()

	s := exact(t, 1, machines, 0)
	s.Workload = nil
	for i, w := range []struct {
		tier models.Tier
		work float64
	}{{models.TierPro, 3}, {models.TierFree, 1}, {models.TierPro, 7}, {models.TierBatch, 2}, {models.TierFree, 5},
		{models.TierEnterprise, 4}} {
		s.Workload = append(s.Workload, Workload{Tier: w.tier, Accounts: 2, Jobs: 12 + i, Model: "drill", GPUSeconds: w.work,
			times: make([]float64, 12+i)})
	}
	s.Seed = 5
	p := newSim(s)
	_, err := p.run(context.Background(), nil)
	require.NoError(t, err)
	got := slices.SortedStableFunc(slices.Values(p.jobs), func(a, b *job) int { return cmp.Compare(a.started, b.started) })
	require.Equal(t, reference(p.jobs), got)
}

func TestPoolsServeOnlyTheirLanes(t *testing.T) {
	t.Parallel()

	s := exact(t, 1, machines, 0)
	s.Workload = nil
	for _, tier := range []models.Tier{models.TierCritical, models.TierPro} {
		s.Workload = append(s.Workload, Workload{Tier: tier, Accounts: 1, Jobs: 2, Model: "drill", GPUSeconds: 10, times: []float64{0, 0}})
	}
	s.pools[0].Tiers = []models.Tier{models.TierPro}

	r := run(t, s)

	require.Equal(t, 2, r.Completed)
	require.Equal(t, 2, r.Unfinished)
}

// reference returns the order of jobs that all wait, for one worker.
func reference(all []*job) (order []*job) {
	type standing struct {
		fairqueue.Share
		jobs []*job
	}
	turns, accounts, reached := fairqueue.Turns{}, map[*account]*standing{}, map[models.Tier]float64{}
	var last *account
	for _, j := range all {
		if accounts[j.account] == nil {
			accounts[j.account] = &standing{Share: fairqueue.Share{Weight: 1}}
		}
		accounts[j.account].jobs = append(accounts[j.account].jobs, j)
	}
	for len(order) < len(all) {
		if last != nil && jobs.Policies[last.tier].MaxRunning == 1 && len(accounts[last].jobs) > 0 {
			var others []float64 // its job has ended, so that it enters its line again
			for a, s := range accounts {
				if a != last && a.tier == last.tier && len(s.jobs) > 0 {
					others = append(others, s.VirtualTime)
				}
			}
			accounts[last].Enter(fairqueue.LineTime(others, reached[last.tier]))
		}
		var first *account
		var best fairqueue.Place
		for a, s := range accounts {
			if len(s.jobs) == 0 {
				continue
			}
			at := fairqueue.Place{Line: models.Line{Lane: a.tier}, VirtualTime: s.VirtualTime, Order: s.jobs[0].order}
			if first == nil || turns.Compare(at, best) < 0 {
				first, best = a, at
			}
		}
		s := accounts[first]
		order, last = append(order, s.jobs[0]), first
		s.Advance(s.jobs[0].kind.estimate)
		s.jobs = s.jobs[1:]
		reached[first.tier] = max(reached[first.tier], s.VirtualTime)
		turns.Start(best.Line)
	}
	return order
}

func TestRunStopsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Run(ctx, exact(t, 1, machines, 0), nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestShipped(t *testing.T) {
	t.Parallel()

	all, err := Shipped()
	require.NoError(t, err)
	for _, s := range all {
		require.NotEmpty(t, s.Description)
		if s.Name == "mass-reclaim" {
			r := run(t, s)
			require.Equal(t, r.Jobs, r.Completed)
			require.Greater(t, r.Preemptions, 70)
			require.Less(t, r.MostLost, 60.0)
		}
		if s.Name == "deadlines" {
			for seed := range uint64(3) {
				s.Seed = seed
				r := run(t, s.With(s.Variants[0]))
				require.Equal(t, r.Deadlines.Jobs, r.Deadlines.Met)
				require.Less(t, r.CostUSD, 1.1*r.Clairvoyant.CostUSD)
				require.GreaterOrEqual(t, r.CostUSD, r.Clairvoyant.CostUSD)
			}
		}
		if s.Name == "cheap-hours" {
			patient, impatient := run(t, s.With(s.Variants[0])), run(t, s.With(s.Variants[1]))
			require.Less(t, patient.CostUSD, 0.6*impatient.CostUSD)
			require.Equal(t, patient.Jobs, patient.Completed)
		}
	}
	require.Len(t, all, 12)
}

func TestRead(t *testing.T) {
	t.Parallel()

	good := strings.Replace(mixed, "NOTICE", "noticeSeconds: 0", 1)
	for name, c := range map[string]struct{ from, to, wrong string }{
		"UnknownKey":  {"hours: 3", "hours: 3\nhuors: 3", `bad.yaml:3: unknown field "huors"`},
		"Negative":    {"detectSeconds: 20", "detectSeconds: -1", "bad.yaml:11: detectSeconds must be from 0 to 86400"},
		"NotANumber":  {"hours: 3", "hours: .nan", "bad.yaml:2: hours must be from"},
		"Infinite":    {"preemptionsPerHour: 3", "preemptionsPerHour: .inf", "bad.yaml:11: preemptionsPerHour must be from 0 to 60"},
		"TooManyJobs": {"jobs: 600", "jobs: 1000000000", "bad.yaml:4: jobs must be from 1 to 2000000"},
		"SumOfJobs":   {"jobs: 600, model", "jobs: 1999999, model", "a scenario may have 2000000 jobs; these are more"},
		"NoSuchModel": {"model: ltx-video, durationSeconds", "model: nope, durationSeconds", "bad.yaml:4: There is no model of that name"},
		"NoSuchTier":  {"tier: FREE", "tier: GOLD", "bad.yaml:5: tier must be one of"},
		"NoPoolRuns":  {"models: [ltx-video, wan-1.3b]", "models: [ltx-video]", "bad.yaml:5: no pool runs the model wan-1.3b"},
		"PoolAccounts": {"minWorkers: 1", "minWorkers: 1, accounts: [acc_01a215a3-305f-71b4-a294-02b4e16bae2c]",
			"bad.yaml:8: a scenario's accounts have no ids"},
		"PoolMinimum":  {"minWorkers: 1", "minWorkers: 21", "bad.yaml:8: minWorkers must be from 0 to maxWorkers, which is 20"},
		"KnownHours":   {"atHour: 1, pricePer", "knownHours: -1, atHour: 1, pricePer", "knownHours must be from 0"},
		"NaNPrice":     {"pricePerHourUsd: 0.5", "pricePerHourUsd: .nan", "bad.yaml:8: pricePerHourUsd must be from 0"},
		"NoSuchPool":   {"stockouts: [{ pool: b", "stockouts: [{ pool: z", `there is no pool "z"`},
		"NoSuchRegion": {"region: r1, from", "region: r9, from", `no pool is in the region "r9"`},
		"Backwards":    {"toHour: 1.8", "toHour: 1.2", "toHour must not be before fromHour"},
		"Spread":       {"p95: 2 }", "p95: 0.5 }", "bad.yaml:10: p95 must be from 1 to 1000"},
		"Median":       {"median: 1, p95: 2 }", "median: .nan, p95: 2 }", "bad.yaml:10: median must be from 0 to 1000"},
		"Shape":        {"shape: burst", "shape: wave", "shape must be constant, diurnal, burst or times"},
		"Policy":       {"checkpoints: {", "checkpoints: { policy: often,", "policy must be adaptive, fixed or none"},
		"NoTrace":      {"reclaims:", "traces: [{ pool: a, file: missing.json }]\nreclaims:", "no such file"},
		"NotATrace":    {"reclaims:", "traces: [{ pool: a, file: bad.json }]\nreclaims:", "this is not a trace"},
		"EmptyTrace":   {"reclaims:", "traces: [{ pool: a, file: empty.json }]\nreclaims:", "a trace must have 1 to 1000000 numbers"},
		"TraceOfMinus": {"reclaims:", "traces: [{ pool: a, file: minus.json }]\nreclaims:",
			"number 2 of the trace must be a number of machines from 0; it is -1"},
		"TwoTraces": {"reclaims:", "traces: [{ pool: a, file: minus.json, machines: [1] }]\nreclaims:",
			"a trace has a file, or gapSeconds and machines, and not both"},
		"NoGap": {"reclaims:", "traces: [{ pool: a, machines: [1] }]\nreclaims:",
			"the gap of a trace must be from 1 to 86400 seconds; it is 0"},
		"FinishBy": {"jobs:", "finishByHours: .nan, jobs:", "finishByHours must be from 0 to 744"},
		"BadTimes": {"arrivals: { shape: burst, atHour: 1, minutes: 10 }", "arrivals: { shape: times, file: times.csv }",
			"line 3: the first column must be the seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			folder := t.TempDir()
			for file, content := range map[string]string{
				"bad.json": "hello", "empty.json": `{"metadata": {"gap_seconds": 300}, "data": []}`,
				"minus.json": `{"metadata": {"gap_seconds": 300}, "data": [1, -1]}`, "times.csv": "at\n1\nNaN\n",
			} {
				require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600))
			}
			bad := strings.Replace(good, c.from, c.to, 1)
			require.NotEqual(t, good, bad)
			_, err := Read("bad.yaml", folder, []byte(bad))
			require.ErrorContains(t, err, c.wrong)
		})
	}
}

func TestWritePage(t *testing.T) {
	t.Parallel()

	r := run(t, exact(t, 2, machines, 100, 101, 102))
	r.Scenario = "<b>mine</b>"
	var page strings.Builder
	require.NoError(t, WritePage(&page, []*Result{r, r}))
	require.Contains(t, page.String(), "&lt;b&gt;mine&lt;/b&gt;")
	require.NotContains(t, page.String(), "<b>")
	require.NotContains(t, page.String(), "ZgotmplZ")
	require.NotContains(t, page.String(), "NaN")
	require.Equal(t, 2*6, strings.Count(page.String(), "<rect"), "one part of a bar for each class")
	require.Equal(t, 2*3, strings.Count(page.String(), "<polygon"), "busy, idle and booting workers")
}

func TestPatience(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		tier, lane, next models.Tier
		minutes          float64
	}{
		{models.TierFree, models.TierFree, models.TierPro, 15}, {models.TierFree, models.TierPro, models.TierEnterprise, 25},
		{models.TierPro, models.TierPro, models.TierEnterprise, 10}, {models.TierPro, models.TierEnterprise, "", 0},
		{models.TierBatch, models.TierBatch, models.TierFree, 360}, {models.TierBatch, models.TierPro, models.TierEnterprise, 385},
		{models.TierCritical, models.TierCritical, "", 0}, {models.TierEnterprise, models.TierEnterprise, "", 0},
	} {
		after, next, moves := patience(c.tier, c.lane)
		require.Equal(t, c.next, next, "%s in %s", c.tier, c.lane)
		require.Equal(t, 60*c.minutes, after)
		require.Equal(t, c.next != "", moves)
	}
}

// deadlines is a scenario with spot machines as a trace says, and on-demand machines at ten times
// their price, $0.001 per second. Jobs take 100 s.
func deadlines(t *testing.T, trace string, hours float64, more string, at ...float64) *Scenario {
	t.Helper()
	folder := t.TempDir()
	times := ""
	for _, a := range at {
		times += fmt.Sprintln(a)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "times.csv"), []byte(times), 0o600))
	s, err := Read("deadlines.yaml", folder, fmt.Appendf(nil, `
hours: 0.1
workload:
  - { tier: PRO, model: drill, gpuSeconds: 100, finishByHours: %v, arrivals: { shape: times, file: times.csv } }
pools:
  - { name: spot, provider: local, region: here, gpuType: any, models: [drill], maxWorkers: 9, pricePerHourUsd: 3.6 }
  - { name: safe, provider: local, region: here, gpuType: any, capacityClass: ON_DEMAND, models: [drill], maxWorkers: 9, pricePerHourUsd: 36 }
traces: [{ pool: spot, gapSeconds: 60, machines: %s }]
scaling: { spotPercent: 100, reservePercent: 0, forecast: false }
%s`, hours, trace, machines+more))
	require.NoError(t, err)
	return s
}

func TestDeadlines(t *testing.T) {
	t.Parallel()

	// 100 s of render, a tenth of that, 125 s until a machine has booted and loaded, and 4 minutes: the
	// slack of the job that arrives at 100 s ends at 345. A round of the scaler later a machine boots for 10 s.
	r := run(t, deadlines(t, "[0]", 0.2, "", 100))
	require.Equal(t, Quantiles{N: 1, P50: 256, P95: 256, P99: 256, Max: 256}, r.Lanes[0].Wait)
	require.Equal(t, &Deadlines{Jobs: 1, Met: 1}, r.Deadlines)
	r = run(t, deadlines(t, "[0]", 0.2, "anywhere: true", 100))
	require.InDelta(t, 12, r.Lanes[0].Wait.Max, 1e-9, "it boots once the provider has refused a spot machine")
	r = run(t, deadlines(t, "[0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]", 0.2, "", 100))
	require.Less(t, r.Lanes[0].Wait.Max, 300.0, "it waits for a spot machine")
	require.Less(t, r.CostUSD, 0.5)
	r = run(t, deadlines(t, "[9]", 0.2, "", 100, 101, 102))
	require.Less(t, r.Lanes[0].Wait.Max, 20.0)
	require.Less(t, r.CostUSD, 0.5, "spot machines have not been taken away yet")
	r = run(t, deadlines(t, "[0]", 0.02, "", 100))
	require.Equal(t, 0, r.Deadlines.Met)
	require.InDelta(t, 100+12+105-172, r.Deadlines.LatestSeconds, 1e-9)
}

func TestClairvoyant(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		scenario *Scenario
		cost     float64
		late     float64
	}{
		"SpotIsEnough":              {deadlines(t, "[1]", 0.1, "", 0, 1), 0.2, 0},
		"TheRestIsOnDemand":         {deadlines(t, "[1, 1, 0, 0, 0, 0, 0, 0]", 0.1, "", 0, 1), 0.12 + 0.8, 0},
		"AJobHasOneMachineAtATime":  {deadlines(t, "[9, 0, 0, 0, 0, 0, 0, 0]", 0.1, "", 0), 0.06 + 0.4, 0},
		"ItSavesMachinesForUrgents": {deadlines(t, "[0, 1, 1, 0, 0, 0, 0, 0]", 0.1, "", 0, 150), 0.12 + 0.8, 0},
		"AfterTheDeadlineIsLate":    {deadlines(t, "[0, 0, 9]", 0.01, "", 0), 0.6, 40},
		"APriceFalls":               {deadlines(t, "[0]", 0.1, "prices: [{ pool: safe, atHour: 0.05, pricePerHourUsd: 7.2 }]", 0), 0.2, 0},
		"ARegionIsOut":              {deadlines(t, "[9]", 0.1, "outages: [{ region: here, fromHour: 0, toHour: 0.1 }]", 0), 0.06, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := run(t, c.scenario).Clairvoyant
			require.InDelta(t, c.cost, found.CostUSD, 1e-6)
			require.InDelta(t, c.late, found.LateSeconds, 1e-6)
		})
	}
	require.Nil(t, run(t, exact(t, 1, machines, 1)).Clairvoyant, "there are no deadlines")
}
