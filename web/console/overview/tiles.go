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

// tile is one figure, and the page that explains it.
type tile struct {
	Name, Value, Note, Help, Link string
	// Level is calm, warn or bad.
	Level string
}

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
func (v *overview) tiles() (first, rest []tile) {
	first = make([]tile, len(actedOn))
	for _, t := range append(v.jobTiles(), v.fleetTiles()...) {
		if i := slices.Index(actedOn, t.Name); i >= 0 {
			first[i] = t
		} else {
			rest = append(rest, t)
		}
	}
	return first, rest
}

func (v *overview) jobTiles() []tile {
	h := v.Hour
	queued, dead := float64(v.Queued), float64(v.DeadLetters)
	return []tile{
		{"Queued", ui.Count(v.Queued, 0), v.queuedNote(),
			"Jobs that wait for a worker. Time in which a queue is paused is no wait, and promoted jobs count apart.", "/queues",
			queues.LevelOf(&queued, deepQueue, veryDeepQueue)},
		{"Running", ui.Count(v.Running, 0), "on " + text.Count(v.WorkersBusy, "busy worker"), "Jobs that a worker holds", "/jobs?status=RUNNING",
			"calm"},
		{"Queues empty in", queues.DrainText(v.Drain), queues.DrainNote(v.Drain),
			"The estimated work of the queued jobs by the workers that can run it and take jobs now. Jobs that do not start are left out.",
			"/queues", queues.DrainLevel(v.Drain)},
		{"Completed", ui.Figure(v.CompletedPerMinute, "/min"), "submitted " + ui.Figure(v.SubmittedPerMinute, "/min") + ", 10 min",
			"Of the last ten minutes", "/jobs?status=COMPLETED", "calm"},
		{"Failure rate", ui.Figure(v.FailureRate, "%"), v.failedNote(),
			"Of the jobs that ended; without those that customers caused or cancelled", "/jobs?status=FAILED",
			queues.LevelOf(v.FailureRate, fewFailures, manyFailures)},
		{"Wait p50 / p95", brief(v.WaitSecondsP50) + " / " + brief(v.WaitSecondsP95), "pickup p99 " + ui.Seconds(h.Pickup(0.99)),
			"From queued to the first lease", "/queues", queues.LevelOf(v.WaitSecondsP95, longWait, veryLongWait)},
		{"Render p50 / p95", brief(v.RenderSecondsP50) + " / " + brief(v.RenderSecondsP95), "p99 " + ui.Seconds(h.Render(0.99)),
			"How long workers held a completed job", "/models", queues.LevelOf(v.RenderSecondsP95, longRender, veryLongRender)},
		{"Dead letters", ui.Count(v.DeadLetters, 0), "open, for operators", "Jobs that failed for good and wait for a decision", "/dead-letters",
			queues.LevelOf(&dead, someDeadLetters, manyDeadLetters)},
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

func (v *overview) fleetTiles() []tile {
	h := v.Hour
	tiles := []tile{
		{"Workers busy", fmt.Sprintf("%d of %d", v.WorkersBusy, v.WorkersBusy+v.WorkersIdle), v.workersNote(), "Workers that can take a job",
			"/workers", v.fleetLevel()},
		{"GPU utilization", ui.Figure(v.GPUUtilization, "%"), "workers " + ui.Figure(h.WorkerUtilization(), "%") + " busy, 1 h",
			"What the GPUs report now", "/heatmap", "calm"},
		{"GPU goodput", ui.Figure(h.Goodput(), "%"), ui.Figure(h.WastedGPUHours(), "GPU h") + " wasted",
			"The share of the paid time of the last hour that rendered what was kept", "/heatmap",
			queues.LevelOf(h.WastedShare(), someWaste, muchWaste)},
		{"Preemptions", ui.Figure(v.PreemptionsPerHour, "/h"), v.preemptionNote(),
			"Attempts of the last hour whose worker was taken away by no operator, and the time until the job of any that lost its worker ran again",
			"/pools", queues.LevelOf(h.PreemptedShare(), somePreempted, manyPreempted)},
	}
	if v.CostUSDPerHour != nil {
		note := ui.Figure(v.WastedUSDPerHour, "$/h") + " wasted"
		if each := h.CostPerVideo(); each != nil {
			note = fmt.Sprintf("$%.3g per video · ", *each) + note
		}
		tiles = append(tiles, tile{"Cost", ui.Figure(v.CostUSDPerHour, "$/h"), note, "What the machines of the last hour cost", "/pools", "calm"})
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
