package fleet

import (
	"fmt"
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/backlog"
	"github.com/stretchr/testify/require"
)

// batchOn is a worker that has rendered a BATCH job for 100 s, the last 20 s without a checkpoint,
// and needs 10 minutes more.
func batchOn(id string, change ...func(*performer)) performer {
	p := performer{
		Performer: &backlog.Performer{
			Worker:    models.Worker{Status: busy, Offer: models.Offer{Models: []string{"m"}, GPUType: "any"}},
			AttemptID: models.AttemptID(id), HeldSeconds: 100,
			Yielding: backlog.Yielding{
				YieldingTiers: []models.Tier{models.TierBatch}, Lane: models.TierBatch, Renders: true, Saves: true, Percent: 20, UnsavedSeconds: 20,
			},
		},
		left: seconds(600),
	}
	for _, c := range change {
		c(&p)
	}
	p.serves = (&catalogue.Snapshot{}).CapabilityOf(p.Offer)
	return p
}

func with(status models.WorkerStatus, age, boot float64) func(*performer) {
	return func(p *performer) { p.Status, p.AgeSeconds, p.BootSeconds = status, age, &boot }
}

func lateJob(lane models.Tier) backlog.LateJob {
	return backlog.LateJob{QueuedJob: backlog.QueuedJob{Queue: models.Queue{Line: models.Line{Lane: lane}, Model: "m"}}, WaitedSeconds: 130}
}

func TestPlanYields(t *testing.T) {
	t.Parallel()

	one := []backlog.LateJob{lateJob("PRO")}
	in := func(lane models.Tier) func(*performer) { return func(p *performer) { p.Lane = lane } }
	free := func(p *performer) { p.Lane, p.YieldingTiers = "FREE", []models.Tier{"FREE", "BATCH"} }
	for name, c := range map[string]struct {
		late       []backlog.LateJob
		performers []performer
		yields     string
	}{
		"NothingIsLate":         {nil, []performer{batchOn("a")}, "[]"},
		"GivesWay":              {one, []performer{batchOn("a")}, "[a]"},
		"NoMoreThanTheLateJobs": {one, []performer{batchOn("a"), batchOn("b"), batchOn("c")}, "[a]"},
		"OneForEachLateJob": {[]backlog.LateJob{lateJob("PRO"), lateJob("FREE")},
			[]performer{batchOn("a"), batchOn("b"), batchOn("c")}, "[a b]"},
		"AnIdleWorkerTakesIt": {one, []performer{batchOn("a"), batchOn("i", with(idle, 0, 0))}, "[]"},
		"AnIdleWorkerTakesOne": {[]backlog.LateJob{lateJob("PRO"), lateJob("PRO")},
			[]performer{batchOn("a"), batchOn("i", with(idle, 0, 0))}, "[a]"},
		"AWorkerBootsInTime":   {one, []performer{batchOn("a"), batchOn("b", with(booting, 40, 60))}, "[]"},
		"AWorkerBootsTooLate":  {one, []performer{batchOn("a"), batchOn("b", with(booting, 20, 120))}, "[a]"},
		"ABootThatMayNeverEnd": {one, []performer{batchOn("a"), batchOn("b", with(booting, 130, 60))}, "[a]"},
		"AJobEndsInTime": {one, []performer{batchOn("a"),
			batchOn("b", func(p *performer) { p.Lane, p.left = "PRO", seconds(20) })}, "[]"},
		"AnotherGivesWayAlready": {one, []performer{batchOn("a"), batchOn("b", func(p *performer) { p.AskedSeconds = new(10.0) })},
			"[]"},
		"AnotherWasAskedInVain": {one, []performer{batchOn("a"), batchOn("b", func(p *performer) { p.AskedSeconds = new(130.0) })},
			"[a]"},
		"AFreeWorkerOfAnotherModelDoesNotHelp": {one, []performer{batchOn("a"),
			batchOn("i", with(idle, 0, 0), func(p *performer) { p.Models = []string{"n"} })}, "[a]"},
		"ItsWorkerCannotRunTheLateJob": {one, []performer{batchOn("a", func(p *performer) { p.Models = []string{"n"} })}, "[]"},
		"NotItsPoolsLane":              {one, []performer{batchOn("a", in("FREE"))}, "[]"},
		"NotToALowerLane":              {[]backlog.LateJob{lateJob("FREE")}, []performer{batchOn("a", free)}, "[]"},
		"LowestLaneFirst":              {one, []performer{batchOn("a", free), batchOn("b")}, "[b]"},
		"LeastWorkLostFirst": {one, []performer{batchOn("a"), batchOn("b", func(p *performer) { p.UnsavedSeconds = 5 })},
			"[b]"},
		"ThoseThatSaveFirst": {one, []performer{batchOn("a", func(p *performer) { p.Saves, p.UnsavedSeconds = false, 1 }),
			batchOn("b")}, "[b]"},
		"LosesLittle": {one, []performer{batchOn("a", func(p *performer) { p.Saves = false })}, "[a]"},
		"WouldLoseMuch": {one, []performer{batchOn("a", func(p *performer) { p.Saves, p.UnsavedSeconds = false, 61 })},
			"[]"},
		"IsAt90Percent": {one, []performer{batchOn("a", func(p *performer) { p.Percent = 90 })}, "[]"},
		"EndsWithinABoot": {one, []performer{batchOn("a", func(p *performer) {
			p.left, p.BootSeconds = seconds(100),
				new(120.0)
		})}, "[]"},
		"CannotBeStopped": {one, []performer{batchOn("a", func(p *performer) { p.Renders = false })}, "[]"},
		"GaveWayJustNow": {one, []performer{batchOn("a", func(p *performer) {
			p.Yields, p.YieldedSeconds = 1,
				new(590.0)
		})}, "[]"},
		"GaveWayAWhileAgo": {one, []performer{batchOn("a", func(p *performer) {
			p.Yields, p.YieldedSeconds = 2,
				new(610.0)
		})}, "[a]"},
		"GaveWayOften": {one, []performer{batchOn("a", func(p *performer) {
			p.Yields, p.YieldedSeconds = 3,
				new(610.0)
		})}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ids := []models.AttemptID{}
			for _, y := range planYields(c.late, c.performers) {
				ids = append(ids, y.AttemptID)
			}
			require.Equal(t, c.yields, fmt.Sprint(ids))
		})
	}
}
