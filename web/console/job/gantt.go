package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

// ganttRow is one line of the chart of attempts: the time without a worker, or one worker.
type ganttRow struct {
	Name, Title string
	Spans       []ui.Span
	Marks       []ui.Point
}

// ganttKey is an entry of the chart's legend.
type ganttKey struct{ Class, Text string }

// The kinds of points on the chart.
const (
	pointCheckpoint = "checkpoint"
	pointResumed    = "resumed"
	pointPreempted  = "preempted"
)

// ganttEnd returns the right edge of the chart: the end of the job, or now.
func (v *jobView) ganttEnd() time.Time {
	if v.Status.Terminal() && !v.CompletedAt.IsZero() {
		return v.CompletedAt
	}
	return v.Now
}

// place returns a moment's place in the job's life, from 0 to 100.
func (v *jobView) place(t time.Time) float64 {
	whole := v.ganttEnd().Sub(v.CreatedAt).Seconds()
	if whole <= 0 {
		return 100
	}
	return min(max(100*t.Sub(v.CreatedAt).Seconds()/whole, 0), 100)
}

func (v *jobView) endOf(a *models.Attempt) time.Time {
	if a.EndedAt.IsZero() {
		return v.ganttEnd()
	}
	return a.EndedAt
}

// gantt returns the chart: first the times without a worker, then the workers in the order in
// which they took the job.
func (v *jobView) gantt() []ganttRow {
	rows := []ganttRow{{Name: "no worker", Title: "Times without a worker", Spans: v.gaps()}}
	byWorker := map[models.WorkerID]int{}
	for _, a := range v.Attempts {
		i, known := byWorker[a.WorkerID]
		if !known {
			i = len(rows)
			byWorker[a.WorkerID] = i
			name := v.workerName(a.WorkerID)
			rows = append(rows, ganttRow{Name: ui.Clip(name, 24), Title: "Attempts on " + name})
		}
		rows[i].Spans = append(rows[i].Spans, ui.Span{
			State: strings.ToLower(string(a.Status)), From: v.place(a.LeasedAt), To: v.place(v.endOf(a)),
			Title: fmt.Sprintf("Attempt %d, %s, %s", a.AttemptNo, ui.Words(string(a.Status)), v.took(a)),
		})
		rows[i].Marks = append(rows[i].Marks, v.points(a)...)
	}
	return rows
}

// gaps returns the times in which no worker held the job.
func (v *jobView) gaps() (spans []ui.Span) {
	from := v.CreatedAt
	gap := func(to time.Time) {
		if to.Sub(from) > 0 {
			spans = append(spans, ui.Span{State: "waiting", From: v.place(from), To: v.place(to), Title: "No worker for " + ui.Between(from, to)})
		}
	}
	for _, a := range v.Attempts {
		gap(a.LeasedAt)
		from = v.endOf(a)
	}
	gap(v.ganttEnd())
	return spans
}

// points returns the checkpoints of an attempt, where it resumed, and how it was taken away.
func (v *jobView) points(a *models.Attempt) (points []ui.Point) {
	for _, c := range v.Artifacts {
		if c.Type == models.ArtifactCheckpoint && c.AttemptID == a.ID {
			title := "Checkpoint"
			if c.Percent != nil {
				title += " at " + ui.Percent(*c.Percent)
			}
			points = append(points, ui.Point{Kind: pointCheckpoint, At: v.place(c.CreatedAt), Title: title})
		}
	}
	if a.ResumedFromStep != nil {
		points = append(points, ui.Point{Kind: pointResumed, At: v.place(a.LeasedAt), Title: fmt.Sprintf("Attempt %d resumed at step %d",
			a.AttemptNo, *a.ResumedFromStep)})
	}
	taken := []models.FailureClass{models.FailPreempted, models.FailWorkerLost, models.FailYielded}
	if !a.EndedAt.IsZero() && slices.Contains(taken, a.FailureClass) {
		points = append(points, ui.Point{Kind: pointPreempted, At: v.place(a.EndedAt), Title: fmt.Sprintf("Attempt %d: %s", a.AttemptNo,
			ui.Words(string(a.FailureClass)))})
	}
	return points
}

// ganttKeys explains what the chart has.
func (v *jobView) ganttKeys() (keys []ganttKey) {
	found := map[string]bool{}
	for _, row := range v.gantt() {
		for _, p := range row.Marks {
			found[p.Kind] = true
		}
	}
	for _, key := range []ganttKey{{pointCheckpoint, "checkpoint"}, {pointResumed, "resumed"}, {pointPreempted, "preempted or lost"}} {
		if found[key.Class] {
			keys = append(keys, key)
		}
	}
	return append([]ganttKey{{"waiting", "without a worker"}}, keys...)
}
