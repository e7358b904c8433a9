package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
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
func followWorkflow(ctx context.Context, c *client.Client, w *client.Workflow, d *display) (*client.WorkflowDetail, error) {
	defer d.keep()
	seen := &seenNodes{states: map[string]string{}}
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
			if !ok || !e.Retryable() || time.Since(answered) > giveUpAfter {
				return nil, apiError(err)
			}
		default:
			answered = time.Now()
			nameNodes(now.Jobs)
			seen.show(d, now)
			if d.err != nil || now.Status.Terminal() {
				return now, d.err
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
	return &statusError{exitInterrupted,
		fmt.Errorf("stopped watching; the workflow continues. See it with `reelay workflows show %s`, cancel it with `reelay workflows cancel %s`", id, id)}
}

// workflowEnding returns nil for a completed workflow, or an error that says which nodes failed.
func workflowEnding(w *client.WorkflowDetail) error {
	switch w.Status {
	case client.WorkflowStatusCompleted:
		return nil
	case client.WorkflowStatusCancelled:
		return fmt.Errorf("%s was cancelled", w.Id)
	}
	var failed []string
	for _, n := range w.Jobs {
		if n.Job.Status == client.JobStatusFailed && (n.Job.FailureClass == nil || *n.Job.FailureClass != client.FailureClassDependencyFailed) && len(failed) < 10 {
			failed = append(failed, fmt.Sprintf("\n%s: %s", n.Key, nodeReason(n)))
		}
	}
	return fmt.Errorf("%s failed%s\nRun the failed nodes again with `reelay workflows retry %s`", w.Id, strings.Join(failed, ""), w.Id)
}

// seenNodes are the states of nodes that were shown.
type seenNodes struct {
	states map[string]string
	counts client.WorkflowCounts
}

// show shows a workflow: on a terminal its nodes with bars, elsewhere a line for each change.
func (s *seenNodes) show(d *display, w *client.WorkflowDetail) {
	summary := fmt.Sprintf("%3.0f %%  %d of %d done, %d running", math.Floor(w.Percent), w.Counts.Completed+w.Counts.Skipped, w.Counts.Total, w.Counts.Running)
	if w.Counts.Failed > 0 {
		summary += fmt.Sprintf(", %d failed", w.Counts.Failed)
	}
	if d.tty {
		d.show(nodeLines(d, w.Jobs))
		d.replace(output.Clip(summary, d.width()-1))
		return
	}
	for _, n := range w.Jobs {
		if state := nodeState(n); s.states[n.Key] != state {
			s.states[n.Key] = state
			d.note(output.Clean(strings.TrimSuffix(fmt.Sprintf("%s: %s, %s", n.Key, strings.ToLower(state), nodeReason(n)), ", ")))
		}
	}
	if len(w.Jobs) == 0 && s.counts != w.Counts {
		d.note(summary)
	}
	s.counts = w.Counts
}

// nodeLines are the lines of the nodes on a terminal. If there are too many, those that run or failed
// come before the others.
func nodeLines(d *display, nodes []client.WorkflowNode) (lines []string) {
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
		line := head + view{color: d.color}.bar(percent, trail{}, nodeBar)
		lines = append(lines, line+output.Clip(fmt.Sprintf(" %3.0f %%  %s", math.Floor(percent), state), d.width()-1-output.Width(head)-nodeBar))
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
