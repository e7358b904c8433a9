package workflows

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
)

const (
	// workflowEvery is the time between two looks at a workflow. A large one is looked at less often, and
	// without its nodes.
	workflowEvery, largeEvery = time.Second, 5 * time.Second
	largeWorkflow             = 200
	// nodeRows is how many nodes a terminal shows, and nodeBar how wide their bars are.
	nodeRows, nodeBar = 24, 20
)

// followWorkflow shows a workflow until it ends, and returns it.
func followWorkflow(ctx context.Context, c *client.Client, w *client.Workflow, d *progress.Display) (*client.WorkflowDetail, error) {
	defer d.Keep()
	seen := &SeenNodes{States: map[string]string{}}
	large := w.Counts.Total > largeWorkflow
	pause := workflowEvery
	if large {
		pause = largeEvery
	}
	for answered := time.Now(); ; {
		now := &client.WorkflowDetail{}
		var err error
		if large {
			w, err = c.Workflow(ctx, w.Id)
			if err == nil && !w.Status.Terminal() {
				now.Workflow = *w
			}
		}
		if now.Id == "" && err == nil {
			now, err = c.WorkflowDetail(ctx, w.Id)
		}
		switch {
		case ctx.Err() != nil:
			return nil, stillRuns(w.Id)
		case err != nil:
			e, ok := errors.AsType[*client.Error](err)
			if !ok || !e.Retryable() || time.Since(answered) > progress.GiveUpAfter {
				return nil, connect.WithAdvice(err)
			}
		default:
			answered = time.Now()
			NameNodes(now.Jobs)
			seen.Show(d, now)
			if d.Err != nil || now.Status.Terminal() {
				return now, d.Err
			}
		}
		select {
		case <-ctx.Done():
			return nil, stillRuns(w.Id)
		case <-time.After(pause):
		}
	}
}

// stillRuns is the error of a watch that the user stopped.
func stillRuns(id string) error {
	return terminal.StatusError(terminal.ExitInterrupted,
		fmt.Errorf(
			"stopped watching; the workflow continues. See it with `reelay workflows show %s`, cancel it with `reelay workflows cancel %s`", id,
			id,
		))
}

// WorkflowEnding returns nil for a completed workflow, or an error that says which nodes failed.
func WorkflowEnding(w *client.WorkflowDetail) error {
	switch w.Status {
	case client.WorkflowStatusCompleted:
		return nil
	case client.WorkflowStatusCancelled:
		return fmt.Errorf("%s was cancelled", w.Id)
	}
	var failed []string
	for _, n := range w.Jobs {
		if n.Job.Status == client.JobStatusFailed && len(failed) < 10 &&
			(n.Job.FailureClass == nil || *n.Job.FailureClass != client.FailureClassDependencyFailed) {
			failed = append(failed, fmt.Sprintf("\n%s: %s", n.Key, nodeReason(n)))
		}
	}
	return fmt.Errorf("%s failed%s\nRun the failed nodes again with `reelay workflows retry %s`", w.Id, strings.Join(failed, ""), w.Id)
}

// SeenNodes are the states of nodes that were shown.
type SeenNodes struct {
	States map[string]string
	counts client.WorkflowCounts
}

// Show shows a workflow: on a terminal its nodes with bars, elsewhere a line for each change.
func (s *SeenNodes) Show(d *progress.Display, w *client.WorkflowDetail) {
	summary := fmt.Sprintf("%3.0f %%  %d of %d done, %d running", math.Floor(w.Percent), w.Counts.Completed+w.Counts.Skipped, w.Counts.Total,
		w.Counts.Running)
	if w.Counts.Failed > 0 {
		summary += fmt.Sprintf(", %d failed", w.Counts.Failed)
	}
	if d.TTY {
		d.Show(nodeLines(d, w.Jobs))
		d.Replace(output.Clip(summary, d.Width()-1))
		return
	}
	for _, n := range w.Jobs {
		if state := nodeState(n); s.States[n.Key] != state {
			s.States[n.Key] = state
			d.Note(output.Clean(strings.TrimSuffix(fmt.Sprintf("%s: %s, %s", n.Key, strings.ToLower(state), nodeReason(n)), ", ")))
		}
	}
	if len(w.Jobs) == 0 && s.counts != w.Counts {
		d.Note(summary)
	}
	s.counts = w.Counts
}

// nodeLines are the lines of the nodes on a terminal. If there are too many, those that run or failed
// come before the others.
func nodeLines(d *progress.Display, nodes []client.WorkflowNode) (lines []string) {
	all := len(nodes)
	if all > nodeRows {
		nodes = slices.Clone(nodes)
		slices.SortStableFunc(nodes, func(a, b client.WorkflowNode) int { return nodeRank(a) - nodeRank(b) })
		nodes = nodes[:nodeRows]
	}
	width := 0
	for _, n := range nodes {
		width = max(width, output.Width(n.Key))
	}
	for _, n := range nodes {
		percent := n.Job.Progress.Percent
		if n.Job.Status == client.JobStatusCompleted {
			percent = 100
		}
		state := strings.ToLower(nodeState(n))
		if reason := nodeReason(n); reason != "" && n.Job.Status != client.JobStatusRunning {
			state += ": " + reason
		} else if reason != "" {
			state = reason
		}
		head := fmt.Sprintf("%-*s ", width, output.Clean(n.Key))
		line := head + progress.View{Color: d.Color}.Bar(percent, progress.Trail{}, nodeBar)
		lines = append(lines, line+output.Clip(fmt.Sprintf(" %3.0f %%  %s", math.Floor(percent), state), d.Width()-1-output.Width(head)-nodeBar))
	}
	if all > nodeRows {
		lines = append(lines, fmt.Sprintf("… and %d more", all-nodeRows))
	}
	return lines
}

func nodeRank(n client.WorkflowNode) int {
	switch {
	case n.Job.Status == client.JobStatusFailed:
		return 0
	case n.Job.Status == client.JobStatusCompleted || n.Job.Status == client.JobStatusCancelled:
		return 3
	case n.Job.Status == client.JobStatusQueued || n.Job.Status == client.JobStatusBlocked || n.Job.Status == client.JobStatusScheduled:
		return 2
	}
	return 1
}
