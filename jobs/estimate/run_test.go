package estimate

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/jobs/fairqueue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/samber/lo"
	"github.com/stretchr/testify/require"
)

func TestPlay(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts for all
	for _, s := range []struct {
		name    string
		workers int
		states  map[models.Tier]models.LaneState
		starts  int
	}{
		{name: "EndsWithoutWorkersThoughJobsComeIn"},
		{name: "EndsOnceAllAreIdleThoughPausedJobsComeIn", workers: 2, states: map[models.Tier]models.LaneState{models.TierPro: {Paused: true}},
			starts: 2},
	} {
		t.Run(s.name, func(t *testing.T) {
			queued := load{Queue: models.Queue{Line: models.Line{Lane: models.TierPro}, Model: "testcard"}, gpuSeconds: 10}
			o := &Forecast{
				lanes: s.states,
				lines: []*line{{Line: queued.Line, account: "a", queued: 1, Share: fairqueue.Share{Weight: 1}, maxRunning: 1, head: []load{queued}}},
				arrivals: []*backlog.Arrival{
					{AccountID: "a", Tier: models.TierPro, Model: "testcard", JobsPerSecond: 1, GPUSeconds: 10, Weight: 1, MaxRunning: 1},
				},
			}
			c := &class{Capability: catalogue.Capability{Ranks: map[string]int{"testcard": 1}}}
			for range s.workers {
				c.workers = append(c.workers, workerView{})
				o.classes = []*class{c}
			}

			played := testing.AllocsPerRun(1, o.run)

			require.Len(t, o.starts, s.starts, "each of the idle workers finds none")
			require.Less(t, played, 100.0, "nothing goes on after that")
			require.Equal(t, 1, o.left)
		})
	}
}

// Thousands of jobs that no idle worker can run arrive each second. The others keep their
// forecast, and the run looks at few jobs.
func TestPlayAmongJobsThatNobodyServes(t *testing.T) {
	t.Parallel()

	unserved := load{Queue: models.Queue{Line: models.Line{Lane: models.TierPro}, Model: "other"}, gpuSeconds: 1}
	job := load{Queue: models.Queue{Line: models.Line{Lane: models.TierFree}, Model: "testcard"}, gpuSeconds: 10}
	c := &class{Capability: catalogue.Capability{Ranks: map[string]int{"testcard": 1}}, workers: []workerView{{}, {free: 30}, {}, {}, {}, {},
		{}, {}}}
	o := &Forecast{classes: []*class{c}}
	for i := range 40 {
		account := models.AccountID(strconv.Itoa(i))
		o.lines = append(o.lines, &line{Line: unserved.Line, account: account, queued: 10_000, Share: fairqueue.Share{Weight: 1}, maxRunning: 9,
			head: slices.Repeat([]load{unserved}, standbySample)})
		o.arrivals = append(o.arrivals, &backlog.Arrival{AccountID: account, Tier: models.TierPro, Model: "other", JobsPerSecond: 50,
			GPUSeconds: 1, Weight: 1, MaxRunning: 9})
	}
	o.lines = append(o.lines, &line{Line: job.Line, account: "a", queued: 20, Share: fairqueue.Share{Weight: 1}, maxRunning: 9,
		head: []load{job}})

	p := newRun(o)

	p.simulate()

	require.LessOrEqual(t, p.looks, maxLooks+len(p.idle)*len(p.lines)*reaches)
	require.Equal(t, 20, lo.CountBy(o.starts, func(s start) bool { return !s.idle }), "all that can start do")
	found, _ := o.estimate(query{load: job, account: "a", weight: 1, maxRunning: 9, ownAhead: 20})
	require.InDelta(t, 20, *found.WaitSeconds, 1)
}

// Two workers run jobs until 1000 s. One job may give way.
func TestYields(t *testing.T) {
	t.Parallel()

	of := func(lane models.Tier) load {
		return load{Queue: models.Queue{Line: models.Line{Lane: lane}, Model: "testcard"}, gpuSeconds: 20}
	}
	for name, c := range map[string]struct {
		yields models.Tier
		queued map[models.Tier]int
		waits  map[models.Tier]float64
	}{
		"NoneMayGiveWay": {waits: map[models.Tier]float64{"CRITICAL": 1000, "PRO": 1000, "BATCH": 1000}},
		"AJobGivesWayToHigherLanes": {
			yields: "FREE", waits: map[models.Tier]float64{"CRITICAL": 15, "ENTERPRISE": 40, "PRO": 130, "FREE": 1000, "BATCH": 1000},
		},
		"TheQueueIsAhead": {
			yields: "BATCH", queued: map[models.Tier]int{"ENTERPRISE": 2},
			waits: map[models.Tier]float64{"CRITICAL": 15, "ENTERPRISE": 80, "PRO": 80, "FREE": 80, "BATCH": 1000},
		},
		"TheJobIsResumedOnce": {
			yields: "BATCH", queued: map[models.Tier]int{"ENTERPRISE": 1, "BATCH": 1},
			waits: map[models.Tier]float64{"ENTERPRISE": 60, "PRO": 60, "BATCH": 1020},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &Forecast{
				lateAfter: map[models.Tier]time.Duration{"CRITICAL": 5 * time.Second, "ENTERPRISE": 30 * time.Second, "PRO": 2 * time.Minute,
					"FREE": 10 * time.Minute},
				classes: []*class{{
					Capability: catalogue.Capability{Ranks: map[string]int{"testcard": 1}},
					workers:    []workerView{{free: 1000, account: "b"}, {free: 1000, account: "b", yields: c.yields}},
				}},
			}
			for lane, n := range c.queued {
				o.lines = append(o.lines, &line{Line: of(lane).Line, account: "a", queued: n, Share: fairqueue.Share{Weight: 1}, maxRunning: 9,
					head: []load{of(lane)}})
			}
			o.run()

			for lane, want := range c.waits {
				found, _ := o.estimate(query{load: of(lane), account: "a", weight: 1, maxRunning: 9, ownAhead: c.queued[lane]})
				require.InDelta(t, want, *found.WaitSeconds, 0, lane)
			}
		})
	}
}

// An account that was busy has a virtual time far ahead of a lane that is empty now. Its new
// jobs must count from the lane's time. Otherwise its next job seems to come after all jobs
// that it is expected to submit.
func TestEnter(t *testing.T) {
	t.Parallel()

	job := load{Queue: models.Queue{Line: models.Line{Lane: models.TierPro}, Model: "testcard"}, gpuSeconds: 2}
	c := &class{Capability: catalogue.Capability{Ranks: map[string]int{"testcard": 1}}, workers: []workerView{{free: 1, account: "a"},
		{free: 2, account: "a"}}}
	o := &Forecast{
		classes: []*class{c},
		arrivals: []*backlog.Arrival{
			{AccountID: "a", Tier: models.TierPro, Model: "testcard", JobsPerSecond: 3, GPUSeconds: 2, VirtualTime: 1000, Weight: 1,
				MaxRunning: 100},
		},
	}
	o.run()
	q := query{load: job, account: "a", weight: 1, maxRunning: 100, running: 2}

	o.enter(q)
	o.run()
	q.ownAhead = 1
	_, wait := o.estimate(q)

	require.LessOrEqual(t, wait, 5.0, "one job is ahead, and both workers are free within two seconds")
}

// A submit does not wait until the new job was simulated, and a request a moment later sees the
// result.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		job := load{Queue: models.Queue{Line: models.Line{Lane: models.TierPro}, Model: "testcard"}, gpuSeconds: 2}
		c := &class{Capability: catalogue.Capability{Ranks: map[string]int{"testcard": 1}}, workers: []workerView{{free: 1}}}
		e := &Estimator{forecast: &Forecast{classes: []*class{c}}, at: time.Now()}
		q := query{load: job, account: "a", weight: 1, maxRunning: 100}
		starts := func() (n int) {
			e.Look(func(o *Forecast) {
				for _, s := range o.starts {
					n += lo.Ternary(!s.idle, 1, 0)
				}
			})
			return n
		}

		e.Look(func(o *Forecast) { o.enter(q) })
		synctest.Wait()
		require.Equal(t, 1, starts())
		e.Look(func(o *Forecast) { o.enter(q) })
		e.Look(func(o *Forecast) { o.enter(q) })
		synctest.Wait()
		require.Equal(t, 1, starts(), "not so soon again")
		time.Sleep(runEvery)
		synctest.Wait()
		require.Equal(t, 3, starts(), "though nobody asked meanwhile")
	})
}

// A long line is counted by formula. The result must equal a count job by job.
func TestBefore(t *testing.T) {
	t.Parallel()

	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		l := &line{Share: fairqueue.Share{VirtualTime: float64(rng.IntN(50)), Weight: float64(int(1) << rng.IntN(3))}, queued: rng.IntN(200)}
		for range min(l.queued, 1+rng.IntN(standbySample)) {
			l.head = append(l.head, load{gpuSeconds: float64(rng.IntN(4))})
		}
		tag := float64(rng.IntN(400))

		want := 0
		for at := l.VirtualTime; want < l.queued && at < tag; want++ {
			at += l.at(want).gpuSeconds / l.Weight
		}

		require.Equal(t, want, l.before(tag), "%+v before %v", l, tag)
	}
	long := &line{Share: fairqueue.Share{Weight: 1}, queued: 1 << 40, head: []load{{gpuSeconds: 1}, {gpuSeconds: 3}}}
	require.Equal(t, 1<<40-1, long.before(2*(1<<40)-3), "at once")
}

func TestRounded(t *testing.T) {
	t.Parallel()

	for seconds, want := range map[float64]float64{0: 0, 0.04: 0, 3.14159: 3.1, 9.94: 9.9, 9.96: 10, 10.4: 10, 1234.5678: 1235} {
		require.InDelta(t, want, Rounded(seconds), 0, "%v", seconds)
	}
}

// Dedicated workers count for their accounts only, and their lanes.
func TestDedicatedWorkers(t *testing.T) {
	t.Parallel()

	job := load{Queue: models.Queue{Line: models.Line{Lane: models.TierPro}, Model: "testcard"}, gpuSeconds: 10}
	batch := job
	batch.Lane = models.TierBatch
	o := &Forecast{catalogue: new(catalogue.Snapshot)}
	classes := map[string]*class{}
	for _, offer := range []models.Offer{{Accounts: []models.AccountID{"a"}}, {}, {Tiers: []models.Tier{models.TierBatch}}} {
		offer.Models = []string{"testcard"}
		o.hire(classes, backlog.WorkerView{Offer: offer, Status: models.WorkerIdle})
	}
	for _, l := range []struct {
		of     models.AccountID
		load   load
		queued int
	}{{"a", job, 1}, {"b", job, 2}, {"b", batch, 2}} {
		o.lines = append(o.lines, &line{Line: l.load.Line, account: l.of, queued: l.queued, Share: fairqueue.Share{Weight: 1}, maxRunning: 9,
			head: []load{l.load}})
	}
	o.run()

	wait := func(account models.AccountID, q load, ahead int) float64 {
		found, _ := o.estimate(query{load: q, account: account, weight: 1, maxRunning: 9, ownAhead: ahead})
		return *found.WaitSeconds
	}
	require.Len(t, o.classes, 3)
	require.InDelta(t, 10, wait("a", job, 1), 0, "b's jobs do not hold up its own worker")
	require.InDelta(t, 20, wait("b", job, 2), 0, "a's worker is of no use to it")
	require.InDelta(t, 20, wait("b", batch, 2), 0, "there is one worker of the lane")
}
