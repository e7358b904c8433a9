package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/reelay/reelay/models"
)

// graph is the workflow that the soak submits: nodes of one step, at random after each other.
type graph struct {
	nodes []graphNode // parents first
	id    models.WorkflowID
	err   error // why it was not accepted
}

type graphNode struct {
	key   string
	after []int // places of its parents, sorted
}

// maxGraph is how many nodes a workflow can have.
const maxGraph = 10_000

// newGraph invents a workflow of levels that are one node, a few, or a tenth of all wide. A level of
// one node comes after all nodes of the level before. Any other node comes after one to three of
// them, and some also after a node of any earlier level.
func newGraph(size int, random *rand.Rand) *graph {
	g := &graph{}
	from := 0
	for len(g.nodes) < size {
		width := 1
		switch kind := random.IntN(10); {
		case kind < 2:
		case kind < 6:
			width = 2 + random.IntN(9)
		case kind < 9:
			width = 1 + size/50
		default:
			width = 1 + size/10
		}
		to := len(g.nodes)
		for range min(width, size-to) {
			g.nodes = append(g.nodes, graphNode{key: strconv.FormatInt(int64(len(g.nodes)), 36), after: parents(from, to, width == 1, random)})
		}
		from = to
	}
	return g
}

// parents picks parents from a level, or takes all of it.
func parents(from, to int, all bool, random *rand.Rand) (picked []int) {
	switch {
	case to == 0:
		return nil
	case all:
		for at := from; at < to; at++ {
			picked = append(picked, at)
		}
		return picked
	}
	for range 1 + random.IntN(3) {
		picked = append(picked, from+random.IntN(to-from))
	}
	if random.IntN(8) == 0 {
		picked = append(picked, random.IntN(to))
	}
	slices.Sort(picked)
	return slices.Compact(picked)
}

func (g *graph) edges() (n int) {
	for _, node := range g.nodes {
		n += len(node.after)
	}
	return n
}

// levels is the number of nodes of its longest path.
func (g *graph) levels() (most int) {
	depth := make([]int, len(g.nodes))
	for i, node := range g.nodes {
		depth[i] = 1
		for _, parent := range node.after {
			depth[i] = max(depth[i], depth[parent]+1)
		}
		most = max(most, depth[i])
	}
	return most
}

// input is the input of submitWorkflow.
func (g *graph) input() map[string]any {
	var nodes []map[string]any
	for _, node := range g.nodes {
		one := map[string]any{"key": node.key, "job": map[string]any{"model": "drill", "prompt": "x", "params": map[string]any{"steps": 1}}}
		if len(node.after) > 0 {
			var after []string
			for _, parent := range node.after {
				after = append(after, g.nodes[parent].key)
			}
			one["after"] = after
		}
		nodes = append(nodes, one)
	}
	return map[string]any{"name": "chaos", "idempotencyKey": "chaos", "jobs": nodes}
}

// graphLimit is how long a customer waits for the answer to a workflow.
const graphLimit = time.Minute

// submit submits the workflow until there is an answer.
func (g *graph) submit(ctx context.Context, l *load) {
	in := map[string]any{"in": g.input()}
	g.err = l.insist(ctx, true, func(context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, graphLimit)
		defer cancel()
		var answer struct {
			SubmitWorkflow struct{ ID models.WorkflowID }
		}
		err := l.callers[l.stack.pipeline].ask(ctx, `mutation($in: SubmitWorkflowInput!) { submitWorkflow(input: $in) { id } }`, in, &answer)
		g.id = answer.SubmitWorkflow.ID
		return err
	})
}

// graphReport is what became of the workflow.
type graphReport struct {
	Nodes, Edges, Levels int
	// Attempts counts those of all nodes, and Seconds is the time from its submit to its end.
	Attempts int
	Seconds  float64
}

// ran is what became of one node.
type ran struct {
	Key, Status         string
	Attempts, Succeeded int
	Completions         int
	Began               time.Time // when its first attempt was leased
	CompletedAt         time.Time
	QueuedAt            time.Time
	// QueuedBy is the transaction that wrote its first event QUEUED, and CompletedBy that of COMPLETED.
	QueuedBy, CompletedBy string
}

// verifyGraph compares the workflow's rows with the graph that was submitted: every node is
// completed exactly once, none was queued or started before all of its parents were completed, and
// each was queued by the transaction that completed the last of them.
func (s *soak) verifyGraph(ctx context.Context, v *verdict) error {
	g := s.graph
	if g == nil {
		return nil
	}
	if g.err != nil {
		v.Lost = append(v.Lost, fmt.Sprintf("the workflow was not accepted: %v", g.err))
		return nil
	}
	w, err := models.GetWorkflow(ctx, s.stack.db, g.id)
	if err != nil {
		return fmt.Errorf("read the workflow: %w", err)
	}
	var rows []ran
	err = s.stack.db.NewRaw(`
		SELECT n.key, j.status, coalesce(j.completed_at, 'epoch') AS completed_at,
			a.attempts, a.succeeded, coalesce(a.began, 'epoch') AS began, e.completions,
			coalesce(e.queued_at, 'epoch') AS queued_at, coalesce(e.queued_by, '') AS queued_by, coalesce(e.completed_by, '') AS completed_by
		FROM workflow_nodes n JOIN jobs j ON j.id = n.job_id,
			LATERAL (SELECT count(*) AS attempts, count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded, min(leased_at) AS began
				FROM job_attempts WHERE job_id = j.id) a,
			LATERAL (SELECT count(*) FILTER (WHERE type = 'COMPLETED') AS completions,
				min(created_at) FILTER (WHERE type = 'QUEUED') AS queued_at,
				(array_agg(xmin::text ORDER BY seq) FILTER (WHERE type = 'QUEUED'))[1] AS queued_by,
				(array_agg(xmin::text ORDER BY seq) FILTER (WHERE type = 'COMPLETED'))[1] AS completed_by
				FROM job_events WHERE job_id = j.id AND type IN ('QUEUED', 'COMPLETED')) e
		WHERE n.workflow_id = ?`, g.id).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("read the nodes of the workflow: %w", err)
	}
	v.Graph = &graphReport{Nodes: len(g.nodes), Edges: g.edges(), Levels: g.levels(), Seconds: w.CompletedAt.Sub(w.CreatedAt).Seconds()}
	for _, row := range rows {
		v.Graph.Attempts += row.Attempts
	}
	wrong := g.compare(rows)
	if w.Status != models.WorkflowCompleted || w.Open != 0 || w.Failed != 0 || w.Nodes != len(g.nodes) || w.Run != 1 {
		wrong = append(wrong, fmt.Sprintf("the workflow is %s in run %d, with %d nodes, %d open, %d failed", w.Status, w.Run, w.Nodes, w.Open,
			w.Failed))
	}
	v.breach("the workflow ran as its graph says", wrong, len(wrong))
	return nil
}

// compare returns what is wrong with the nodes.
func (g *graph) compare(rows []ran) (wrong []string) {
	found := map[string]ran{}
	for _, row := range rows {
		found[row.Key] = row
	}
	bad := func(key, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("node %s ", key)+fmt.Sprintf(format, args...))
	}
	if len(rows) != len(g.nodes) {
		wrong = append(wrong, fmt.Sprintf("the workflow has %d nodes, and %d were submitted", len(rows), len(g.nodes)))
	}
	for _, node := range g.nodes {
		child := found[node.key]
		if child.Status != "COMPLETED" || child.Succeeded != 1 || child.Completions != 1 {
			bad(node.key, "is %q, with %d attempts that succeeded and %d completions", child.Status, child.Succeeded, child.Completions)
			continue
		}
		released := len(node.after) == 0
		for _, at := range node.after {
			parent := found[g.nodes[at].key]
			if child.Began.Before(parent.CompletedAt) || child.QueuedAt.Before(parent.CompletedAt) {
				bad(node.key, "was queued at %s and began at %s, before %s was completed at %s", child.QueuedAt, child.Began, parent.Key,
					parent.CompletedAt)
			}
			released = released || child.QueuedBy == parent.CompletedBy
		}
		if !released {
			bad(node.key, "was queued by transaction %s, which completed none of its parents", child.QueuedBy)
		}
	}
	return wrong
}
