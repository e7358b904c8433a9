package workflows

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/schedules"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/console/static"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// NodesShown bounds the rows of the table of nodes and of the chart.
const NodesShown = 500

// workflowShow is the view of one workflow's page.
type workflowShow struct {
	workflowRow
	// Schedule is the one that submitted it, or nil.
	Schedule *schedules.WorkflowSchedule
	Nodes    []workflowNode
	Now      time.Time
}

// workflowNode is a node with its job.
type workflowNode struct {
	*models.WorkflowNode
	Job     *models.Job
	Reasons []query.WaitingReason
	// Approval is nil for a node that is none.
	Approval *query.Approval
}

// asks reports whether the node waits for an answer.
func (n workflowNode) asks() bool {
	return n.Approval != nil && n.Approval.Open() && n.state() == string(models.JobBlocked)
}

// state names the node's state, as a badge.
func (n workflowNode) state() string {
	switch {
	case !n.SkippedAt.IsZero():
		return "SKIPPED"
	case n.Job == nil:
		return "DELETED"
	}
	return string(n.Job.Status)
}

// why says why the node waits or failed, or "".
func (n workflowNode) why() string {
	switch {
	case n.Job == nil || !n.SkippedAt.IsZero():
		return ""
	case n.Job.FailureReason != "" && n.Job.Status == models.JobFailed:
		return n.Job.FailureReason
	case len(n.Reasons) > 0:
		return n.Reasons[0].Whole()
	}
	return text.Printable(n.Job.Progress.Message)
}

// waitsFor are the parents that an operator can let it not wait for.
func (n workflowNode) waitsFor() []string {
	if n.state() != string(models.JobBlocked) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.After), func(key string) bool { return slices.Contains(n.Overridden, key) })
}

// skippable reports whether the button to skip it is shown.
func (n workflowNode) skippable() bool {
	return n.SkippedAt.IsZero() && n.Job != nil && !n.Job.Status.Live() && n.Job.Status != models.JobCompleted
}

// shown are the nodes that the table lists: those that need attention first.
func (v *workflowShow) shown() []workflowNode {
	if len(v.Nodes) <= NodesShown {
		return v.Nodes
	}
	rank := func(n workflowNode) int {
		switch {
		case n.Job == nil:
			return 4
		case n.Job.Status == models.JobFailed:
			return 0
		case n.Job.Status.Live():
			return 1
		case n.Job.Status.Waiting():
			return 2
		}
		return 3
	}
	sorted := slices.SortedStableFunc(slices.Values(v.Nodes), func(a, b workflowNode) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted[:NodesShown]
}

// retriable reports whether something can be retried.
func (v *workflowShow) retriable() bool {
	return v.WorkflowCounts.Failed+v.Cancelled > 0 && (v.Workflow.Status != models.WorkflowRunning || v.CancelRequestedAt.IsZero())
}

func (v *workflowShow) cancellable() bool {
	return v.Workflow.Status == models.WorkflowRunning && v.CancelRequestedAt.IsZero()
}

// jobsPath is the address of the list of its jobs.
func (v *workflowShow) jobsPath() string {
	return address.Jobs{Search: address.SearchTerm("workflow", string(v.ID))}.Path("/jobs")
}

// span is the node's time on a worker, on a scale from 0 to 100.
func (v *workflowShow) span(n workflowNode) []ui.Span {
	if n.Job == nil || n.Job.StartedAt.IsZero() || n.Reused {
		return nil
	}
	whole := v.end(v.Now).Sub(v.CreatedAt).Seconds()
	place := func(t time.Time) float64 {
		if whole <= 0 {
			return 100
		}
		return min(max(100*t.Sub(v.CreatedAt).Seconds()/whole, 0), 100)
	}
	to := v.end(v.Now)
	if !n.Job.CompletedAt.IsZero() {
		to = n.Job.CompletedAt
	}
	return []ui.Span{{
		State: strings.ToLower(n.state()), From: place(n.Job.StartedAt), To: place(to),
		Title: fmt.Sprintf("%s, %s, %s", n.Key, ui.Words(n.state()), ui.Between(n.Job.StartedAt, to)),
	}}
}

func workflowID(r *http.Request) models.WorkflowID { return models.WorkflowID(r.PathValue("id")) }

// workflowScripts are the scripts of the page. Without the library, there is no drawing.
func workflowScripts() []string {
	if static.Asset("vendor/dagre.js") == "" {
		return []string{"job.js"}
	}
	return []string{"job.js", "vendor/dagre.js", "workflow.js"}
}

func (c *controller) workflowShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readWorkflow(r.Context(), p, workflowID(r))
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return shell.Render(w, r, http.StatusOK, workflowShowPage(v))
}

func (c *controller) workflowShowLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := workflowID(r)
	if _, err := c.Workflows.Get(r.Context(), p, id); err != nil {
		return err
	}
	return c.Refresh(w, r, p, address.Workflow(id)+"/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component,
		error) {
		v, err := c.readWorkflow(ctx, p, id)
		if err != nil {
			return nil, err
		}
		return func(now time.Time) templ.Component {
			v.Now = now
			return workflowParts(v)
		}, nil
	})
}

func (c *controller) readWorkflow(ctx context.Context, p jobs.Principal, id models.WorkflowID) (*workflowShow, error) {
	found, err := c.Workflows.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	rows, err := c.workflowRows(ctx, p, []*models.Workflow{found})
	if err != nil {
		return nil, err
	}
	edges, err := c.Reads.Workflows.Of(p, found)
	if err != nil {
		return nil, err
	}
	nodes, err := edges.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	ids := lo.Map(nodes, func(n *models.WorkflowNode, _ int) models.JobID { return n.JobID })
	rowsOf, err := c.Reads.Jobs.ByID(ctx, p, ids)
	if err != nil {
		return nil, err
	}
	byID := lo.KeyBy(rowsOf, func(j *models.Job) models.JobID { return j.ID })
	var waiting []*models.Job
	for _, id := range ids {
		if job := byID[id]; job != nil && job.Status.Waiting() && len(waiting) < NodesShown {
			waiting = append(waiting, job)
		}
	}
	held, err := c.Reads.Jobs.Of(p, waiting...)
	if err != nil {
		return nil, err
	}
	reasons, err := c.Reads.Jobs.WaitingFor(ctx, held)
	if err != nil {
		return nil, err
	}
	approvals, err := edges.Approvals(ctx)
	if err != nil {
		return nil, err
	}
	v := &workflowShow{workflowRow: rows[0]}
	by, err := edges.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	if len(by) > 0 {
		v.Schedule = by[0]
	}
	// On this page, a node is known by its key.
	keys := strings.NewReplacer(lo.FlatMap(nodes, func(n *models.WorkflowNode, _ int) []string { return []string{string(n.JobID), n.Key} })...)
	for _, n := range nodes {
		for i, reason := range reasons[n.JobID] {
			reasons[n.JobID][i].Message = keys.Replace(reason.Message)
		}
		v.Nodes = append(v.Nodes, workflowNode{n, byID[n.JobID], reasons[n.JobID], approvals[found.ID][n.JobID]})
	}
	return v, nil
}
