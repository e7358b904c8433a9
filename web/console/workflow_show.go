package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/samber/lo"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/query"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/ui"
)

const (
	// nodesShown bounds the rows of the table of nodes and of the chart, and nodesDrawn the nodes
	// of the graph: above that, it draws groups.
	nodesShown = 500
	nodesDrawn = 500
)

// workflowShow is the view of one workflow's page.
type workflowShow struct {
	workflowRow
	// Schedule is the one that submitted it, or nil.
	Schedule *models.WorkflowSchedule
	Nodes    []workflowNode
	Now      time.Time
}

// workflowNode is a node with its job.
type workflowNode struct {
	*models.WorkflowNode
	Job     *models.Job
	Reasons []query.WaitingReason
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
		return n.Reasons[0].Message
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
	if len(v.Nodes) <= nodesShown {
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
	return sorted[:nodesShown]
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
	return jobQuery{Search: searchTerm("workflow", string(v.ID))}.path("/jobs")
}

// drawing is the graph for workflow.js: nodes, and edges as pairs of their indices.
type drawing struct {
	Nodes []drawnNode `json:"nodes"`
	Edges [][2]int    `json:"edges"`
}

type drawnNode struct {
	Key   string `json:"key"`
	State string `json:"state"`
	Note  string `json:"note"`
	Link  string `json:"link"`
}

// drawing returns the graph. If it has many nodes, those with the same beginning of the key, or
// else those at the same depth, are one.
func (v *workflowShow) drawing() string {
	var d drawing
	place := map[string]int{}
	if len(v.Nodes) <= nodesDrawn {
		for i, n := range v.Nodes {
			place[n.Key] = i
			node := drawnNode{Key: n.Key, State: strings.ToLower(n.state()), Note: ui.Words(n.state())}
			if n.Job != nil {
				node.Link = string(jobPath(n.JobID))
				if n.Job.Status.Live() {
					node.Note = ui.Percent(n.Job.Progress.Percent)
				}
			}
			d.Nodes = append(d.Nodes, node)
		}
	} else {
		d.Nodes, place = v.groups()
	}
	seen := map[[2]int]bool{}
	for _, n := range v.Nodes {
		for _, key := range n.After {
			edge := [2]int{place[key], place[n.Key]}
			if edge[0] != edge[1] && !seen[edge] {
				seen[edge] = true
				d.Edges = append(d.Edges, edge)
			}
		}
	}
	drawn, _ := json.Marshal(d) // it is made of plain values only
	return string(drawn)
}

// groups draws groups of nodes in the place of nodes.
func (v *workflowShow) groups() (drawn []drawnNode, place map[string]int) {
	place = map[string]int{}
	byPrefix := len(lo.UniqBy(v.Nodes, func(n workflowNode) string { return prefix(n.Key) })) <= nodesDrawn
	depth := map[string]int{}
	index, nodes := map[string]int{}, [][]workflowNode{}
	for _, n := range v.Nodes { // parents come first
		for _, key := range n.After {
			depth[n.Key] = max(depth[n.Key], depth[key]+1)
		}
		name := fmt.Sprintf("level %d", min(depth[n.Key], nodesDrawn-1)+1)
		if byPrefix {
			name = prefix(n.Key)
		}
		i, known := index[name]
		if !known {
			i = len(nodes)
			index[name], nodes = i, append(nodes, nil)
			drawn = append(drawn, drawnNode{Key: name})
		}
		nodes[i], place[n.Key] = append(nodes[i], n), i
	}
	for i, some := range nodes {
		states := lo.CountValuesBy(some, func(n workflowNode) string { return n.state() })
		drawn[i].State = strings.ToLower(groupState(states))
		drawn[i].Note = fmt.Sprintf("%d of %d", states[string(models.JobCompleted)]+states["SKIPPED"], len(some))
	}
	return drawn, place
}

// prefix is a key without its last part.
func prefix(key string) string {
	if i := strings.LastIndexByte(key, '.'); i > 0 {
		return key[:i]
	}
	return key
}

// groupState is the state of a group of nodes: that of the one that matters most.
func groupState(states map[string]int) string {
	for _, state := range []models.JobStatus{
		models.JobFailed, models.JobRunning, models.JobCompleting, models.JobAssigned, models.JobQueued, models.JobBlocked, models.JobScheduled, models.JobCancelled,
	} {
		if states[string(state)] > 0 {
			return string(state)
		}
	}
	return string(models.JobCompleted)
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
	if asset("vendor/dagre.js") == "" {
		return []string{"job.js"}
	}
	return []string{"job.js", "vendor/dagre.js", "workflow.js"}
}

func (c *console) workflowShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	v, err := c.readWorkflow(r.Context(), p, workflowID(r))
	if err != nil {
		return err
	}
	v.Now = time.Now()
	return render(w, r, http.StatusOK, workflowShowPage(v))
}

func (c *console) workflowShowLive(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	id := workflowID(r)
	if _, err := c.Workflows.Get(r.Context(), p, id); err != nil {
		return err
	}
	return c.refresh(w, r, p, workflowPath(id)+"/live", func(ctx context.Context, p jobs.Principal) (func(time.Time) templ.Component, error) {
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

func (c *console) readWorkflow(ctx context.Context, p jobs.Principal, id models.WorkflowID) (*workflowShow, error) {
	found, err := c.Workflows.Get(ctx, p, id)
	if err != nil {
		return nil, err
	}
	rows, err := c.workflowRows(ctx, []*models.Workflow{found})
	if err != nil {
		return nil, err
	}
	nodes, err := c.Reader.WorkflowNodes(ctx, []models.WorkflowID{id})
	if err != nil {
		return nil, err
	}
	ids := lo.Map(nodes, func(n *models.WorkflowNode, _ int) models.JobID { return n.JobID })
	rowsOf, err := c.Reader.JobsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	byID := lo.KeyBy(rowsOf, func(j *models.Job) models.JobID { return j.ID })
	var waiting []models.JobID
	for _, id := range ids {
		if job := byID[id]; job != nil && job.Status.Waiting() && len(waiting) < nodesShown {
			waiting = append(waiting, id)
		}
	}
	reasons, err := c.Reader.WaitingFor(ctx, waiting)
	if err != nil {
		return nil, err
	}
	v := &workflowShow{workflowRow: rows[0]}
	by, err := c.Reader.SchedulesOf(ctx, []models.WorkflowID{id})
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
		v.Nodes = append(v.Nodes, workflowNode{n, byID[n.JobID], reasons[n.JobID]})
	}
	return v, nil
}

func (c *console) workflowCancelAsk(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	found, err := c.Workflows.Get(r.Context(), p, workflowID(r))
	if err != nil {
		return err
	}
	return render(w, r, http.StatusOK, workflowCancelPage(found))
}

func (c *console) workflowCancel(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := readForm(r); err != nil {
		return err
	}
	_, err := c.Workflows.Cancel(r.Context(), p, workflowID(r), r.PostForm.Get("reason"))
	return c.workflowDone(w, r, err, "The workflow is being cancelled.")
}

func (c *console) workflowRetry(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	_, err := c.Workflows.Retry(r.Context(), p, workflowID(r), false)
	return c.workflowDone(w, r, err, "What failed runs again.")
}

func (c *console) workflowSkip(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := readForm(r); err != nil {
		return err
	}
	key := r.PostForm.Get("key")
	_, err := c.Workflows.Skip(r.Context(), p, workflowID(r), key)
	return c.workflowDone(w, r, err, "The node "+text.Clip(text.Printable(key), 100)+" is skipped.")
}

func (c *console) workflowOverride(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := readForm(r); err != nil {
		return err
	}
	key, parent := r.PostForm.Get("key"), r.PostForm.Get("parent")
	_, err := c.Workflows.Override(r.Context(), p, workflowID(r), key, parent)
	return c.workflowDone(w, r, err, fmt.Sprintf("The node %s does not wait for %s any more.", text.Clip(text.Printable(key), 100), text.Clip(text.Printable(parent), 100)))
}

// workflowDone returns to the workflow's page. A refusal is told there: a second click, or a node
// that has gone on, is no error of the page.
func (c *console) workflowDone(w http.ResponseWriter, r *http.Request, err error, told string) error {
	if apierror.HasCode(err, apierror.CodeConflict) {
		told = err.Error()
	} else if err != nil {
		return err
	}
	return c.done(w, r, workflowPath(workflowID(r)), told)
}
