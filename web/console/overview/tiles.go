package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/attention"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/alerts"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/queues"
	"github.com/reelay/reelay/web/ui"
)

// The bounds of the tiles are those of the alerts.
const (
	fewFailures, manyFailures                = 0.05, 0.10
	longRender, veryLongRender               = 600, 900
	somePreempted, manyPreempted             = 0.10, 0.20
	someWaste, muchWaste                     = 0.05, 0.15
	someDeadLetters, manyDeadLetters         = 0, 10
	deepQueue, veryDeepQueue                 = 200, 500
	longWait, veryLongWait           float64 = 300, 1800
)

// actedOn are the names of the figures that one acts on, which the page shows first and larger.
var actedOn = []string{"Queued", "Queues empty in", "Workers busy", "Failure rate", "Dead letters"}

// tiles returns the figures that one acts on, and the others.
func (v *overview) tiles() (first, rest []ui.Tile) {
	first = make([]ui.Tile, len(actedOn))
	for _, t := range append(v.jobTiles(), v.fleetTiles()...) {
		if i := slices.Index(actedOn, t.Name); i >= 0 {
			first[i] = t
		} else {
			rest = append(rest, t)
		}
	}
	return first, rest
}

func (v *overview) jobTiles() []ui.Tile {
	h := v.Hour
	queued, dead := float64(v.Queued), float64(v.DeadLetters)
	return []ui.Tile{
		{Name: "Queued", Value: ui.Count(v.Queued, 0), Note: v.queuedNote(),
			Help: "Jobs that wait for a worker. Time in which a queue is paused is no wait, and promoted jobs count apart.", Link: "/queues", Level: queues.LevelOf(&queued, deepQueue, veryDeepQueue)},
		{Name: "Running", Value: ui.Count(v.Running, 0), Note: "on " + text.Count(v.WorkersBusy, "busy worker"),
			Help: "Jobs that a worker holds", Link: "/jobs?status=RUNNING", Level: "calm"},
		{Name: "Queues empty in", Value: queues.DrainText(v.Drain), Note: queues.DrainNote(v.Drain),
			Help: "The estimated work of the queued jobs by the workers that can run it and take jobs now. Jobs that do not start are left out.", Link: "/queues", Level: queues.DrainLevel(v.Drain)},
		{Name: "Completed", Value: ui.Figure(v.CompletedPerMinute, "/min"), Note: "submitted " + ui.Figure(v.SubmittedPerMinute, "/min") + ", 10 min",
			Help: "Of the last ten minutes", Link: "/jobs?status=COMPLETED", Level: "calm"},
		{Name: "Failure rate", Value: ui.Figure(v.FailureRate, "%"), Note: v.failedNote(),
			Help: "Of the jobs that ended; without those that customers caused or cancelled", Link: "/jobs?status=FAILED", Level: queues.LevelOf(v.FailureRate, fewFailures, manyFailures)},
		{Name: "Wait p50 / p95", Value: brief(v.WaitSecondsP50) + " / " + brief(v.WaitSecondsP95), Note: "pickup p99 " + ui.Seconds(h.Pickup(0.99)),
			Help: "From queued to the first lease", Link: "/queues", Level: queues.LevelOf(v.WaitSecondsP95, longWait, veryLongWait)},
		{Name: "Render p50 / p95", Value: brief(v.RenderSecondsP50) + " / " + brief(v.RenderSecondsP95), Note: "p99 " + ui.Seconds(h.Render(0.99)),
			Help: "How long workers held a completed job", Link: "/models", Level: queues.LevelOf(v.RenderSecondsP95, longRender, veryLongRender)},
		{Name: "Dead letters", Value: ui.Count(v.DeadLetters, 0), Note: "open, for operators",
			Help: "Jobs that failed for good and wait for a decision", Link: "/dead-letters", Level: queues.LevelOf(&dead, someDeadLetters, manyDeadLetters)},
	}
}

// queuedNote says which of the lanes' jobs has waited longest, as the lanes below do, and what that
// leaves out.
func (v *overview) queuedNote() string {
	var oldest, promoted *float64
	stands, paused := false, 0
	for _, lane := range v.Lanes {
		paused += lane.PausedDepth
		if queues.Longer(lane.OldestWaitSeconds, oldest) {
			oldest, stands = lane.OldestWaitSeconds, lane.OldestFrozen
		}
		if queues.Longer(lane.PromotedWaitSeconds, promoted) {
			promoted = lane.PromotedWaitSeconds
		}
	}
	parts := []string{"none waits"}
	switch {
	case oldest != nil && queues.LeasesHalted(v.Halts):
		parts[0] = "oldest " + ui.Seconds(oldest) + ", halted"
	case oldest != nil && stands:
		parts[0] = "oldest " + ui.Seconds(oldest) + ", paused"
	case oldest != nil:
		parts[0] = "oldest " + ui.Seconds(oldest)
	case v.Promoted > 0:
		parts = nil // all that wait were promoted
	}
	if v.Promoted > 0 {
		parts = append(parts, queues.PromotedText(v.Promoted, promoted))
	}
	if paused > 0 {
		parts = append(parts, ui.Count(paused, 0)+" in paused queues")
	}
	parts = append(parts, ui.Count(v.Scheduled, 10_000)+" scheduled", ui.Count(v.Blocked, 10_000)+" blocked")
	return strings.Join(parts, " · ")
}

func (v *overview) failedNote() string {
	if v.Hour.Covered == 0 {
		return "no history yet"
	}
	return fmt.Sprintf("%s failed of %s", ui.Count(v.Hour.Failed(), 0), ui.Count(v.Hour.Failed()+v.Hour.Completed(), 0))
}

func (v *overview) fleetTiles() []ui.Tile {
	h := v.Hour
	tiles := []ui.Tile{
		{Name: "Workers busy", Value: fmt.Sprintf("%d of %d", v.WorkersBusy, v.WorkersBusy+v.WorkersIdle), Note: v.workersNote(),
			Help: "Workers that can take a job", Link: "/workers", Level: v.fleetLevel()},
		{Name: "GPU utilization", Value: ui.Figure(v.GPUUtilization, "%"), Note: "workers " + ui.Figure(h.WorkerUtilization(), "%") + " busy, 1 h",
			Help: "What the GPUs report now", Link: "/heatmap", Level: "calm"},
		{Name: "GPU goodput", Value: ui.Figure(h.Goodput(), "%"), Note: ui.Figure(h.WastedGPUHours(), "GPU h") + " wasted",
			Help: "The share of the paid time of the last hour that rendered what was kept", Link: "/heatmap", Level: queues.LevelOf(h.WastedShare(), someWaste, muchWaste)},
		{Name: "Preemptions", Value: ui.Figure(v.PreemptionsPerHour, "/h"), Note: v.preemptionNote(),
			Help: "Attempts of the last hour whose worker was taken away by no operator, and the time until the job of any that lost its worker ran again", Link: "/pools", Level: queues.LevelOf(h.PreemptedShare(), somePreempted, manyPreempted)},
	}
	if v.CostUSDPerHour != nil {
		note := ui.Figure(v.WastedUSDPerHour, "$/h") + " wasted"
		if each := h.CostPerVideo(); each != nil {
			note = fmt.Sprintf("$%.3g per video · ", *each) + note
		}
		tiles = append(tiles, ui.Tile{Name: "Cost", Value: ui.Figure(v.CostUSDPerHour, "$/h"), Note: note,
			Help: "What the machines of the last hour cost", Link: "/pools", Level: "calm"})
	}
	return tiles
}

func (v *overview) workersNote() string {
	note := fmt.Sprintf("%d booting · %d draining", v.WorkersBooting, v.WorkersDraining)
	if v.WorkersMax > 0 {
		note += fmt.Sprintf(" · at most %d in pools", v.WorkersMax)
	}
	if v.WorkersWithoutPool > 0 {
		note += fmt.Sprintf(" · %d without a pool", v.WorkersWithoutPool)
	}
	return note
}

// preemptionNote says how fast jobs recover, and what operators took.
func (v *overview) preemptionNote() string {
	note := "recovery p95 " + ui.Seconds(v.RecoverySecondsP95)
	if n := v.OperatorPreemptionsPerHour; n != nil && *n > 0 {
		note = ui.Figure(n, "/h") + " by operators · " + note
	}
	return note
}

func (v *overview) fleetLevel() string {
	if v.Queued > 0 && v.WorkersBusy+v.WorkersIdle == 0 {
		return "bad"
	}
	return "calm"
}

// causeLevel is the colour of a cause.
func causeLevel(c attention.Cause) string {
	if c.Urgent {
		return "bad"
	}
	return "warn"
}

// causeDetail ends with what stands before the time since when it is so.
func causeDetail(c attention.Cause) string {
	detail := ui.Upright(text.Printable(ui.Clip(c.Detail, 200)))
	if detail == "" || c.Since.IsZero() {
		return detail + " "
	}
	return strings.TrimSuffix(detail, ".") + ", "
}

// following are the alerts below a cause, which is one itself if nothing explains it.
func following(c attention.Cause) []*alerts.Alert {
	if c.Kind == attention.KindAlert {
		return c.Alerts[1:]
	}
	return c.Alerts
}

// causeID names what is folded, so that it stays open while the page is current.
func causeID(c attention.Cause) string {
	return "cause-" + strings.ToLower(string(c.Kind)) + "-" + strings.NewReplacer("/", "-", "?", "-", "=", "-", "%", "-").Replace(c.Path)
}

func alertNote(a *alerts.Alert) string {
	if a.AcknowledgedAt != nil {
		return ", acknowledged"
	}
	return ""
}

// ways are the pages that answer what the overview does not: their addresses, and the questions.
func ways(now time.Time) [][2]string {
	yesterday := now.UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	return [][2]string{
		{"/heatmap?hours=12", "Last night's waste"}, {"/queues", "Top accounts by queue"}, {"/workers", "Failing hosts"},
		{"/webhooks", "Webhook deliveries"}, {"/changes?since=" + yesterday, "What changed since yesterday"},
	}
}

// brief formats seconds so that two fit into a tile.
func brief(seconds *float64) string {
	switch {
	case seconds == nil:
		return ui.Unknown
	case *seconds < 10:
		return fmt.Sprintf("%.1f s", *seconds)
	case *seconds < 100:
		return fmt.Sprintf("%.0f s", *seconds)
	case *seconds < 6000:
		return fmt.Sprintf("%.1f min", *seconds/60)
	}
	return fmt.Sprintf("%.1f h", *seconds/3600)
}

// laneJobs is the address of the queued jobs of a lane's tier.
func laneJobs(lane models.Tier) templ.SafeURL {
	return templ.SafeURL(address.Jobs{Status: []models.JobStatus{models.JobQueued}, Search: "tier:" +
		strings.ToLower(string(lane))}.Path("/jobs"))
}
