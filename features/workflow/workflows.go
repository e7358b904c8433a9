package workflow

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/change"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/samber/lo"
)

// Workflows submits, changes and reads workflows for their owners and for operators.
type Workflows struct {
	operate.WorkflowOperator
	Submitter *submit.Submitter
}

// Submit accepts a workflow: once it returns, all its jobs are durable. See
// [submit.Submitter.SubmitGraph] for its answers. Jobs must be valid requests of their own, and in
// addition can name the results of other nodes: {{key.video}}, {{key.lastFrame}},
// {{key.firstFrame}}, {{key.thumbnail}} as the whole value of a parameter that takes files, and
// {{key.output.path}} in texts.
func (w *Workflows) Submit(ctx context.Context, p jobs.Principal, in Input) (*models.Workflow, bool, error) {
	g, err := w.graph(ctx, p, &in)
	if err != nil {
		return nil, false, err
	}
	return w.Submitter.SubmitGraph(ctx, p, g)
}

// Check returns the errors of Submit that do not depend on the moment, such as a full queue, and the
// highest tier of the jobs. It submits nothing.
func (w *Workflows) Check(ctx context.Context, p jobs.Principal, in Input) (models.Tier, error) {
	g, err := w.graph(ctx, p, &in)
	if err != nil {
		return "", err
	}
	return w.Submitter.CheckGraph(ctx, p, g)
}

// resolve finds what the nodes use of each other, and their order.
func (in *Input) resolve() (uses [][]use, order []int, err error) {
	names := in.references()
	uses = make([][]use, len(in.Jobs))
	for i := range in.Jobs {
		if uses[i], err = names.uses(&in.Jobs[i]); err != nil {
			return nil, nil, err
		}
		if key := in.Jobs[i].Continues; key != "" {
			uses[i] = append(uses[i], use{key, "pick"})
		}
	}
	order, err = in.arrange(uses)
	return uses, order, err
}

func (in *Input) references() references {
	keys := make(map[string]bool, len(in.Jobs))
	for i := range in.Jobs {
		keys[in.Jobs[i].Key] = true
	}
	return references{keys}
}

// graph makes of an input what is to be written.
func (w *Workflows) graph(ctx context.Context, p jobs.Principal, in *Input) (*submit.Graph, error) {
	in.Jobs = slices.Clone(in.Jobs)
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.CallbackURL != "" {
		if err := change.ValidCallback(w.Submitter.Outbound, "callbackUrl", in.CallbackURL); err != nil {
			return nil, err
		}
	}
	uses, order, err := in.resolve()
	if err != nil {
		return nil, err
	}
	earlier, err := w.reusable(ctx, p, in.Reuse)
	if err != nil {
		return nil, err
	}
	g := &submit.Graph{Workflow: &models.Workflow{
		ID: models.NewWorkflowID(), Name: in.Name, Output: in.Output, CallbackURL: in.CallbackURL, IdempotencyKey: lo.FromPtr(in.IdempotencyKey),
	}}
	tolerated := in.tolerated()
	names := in.references()
	nodes := make(map[string]*submit.GraphNode, len(in.Jobs))
	whole := sha256.New()
	fmt.Fprintf(whole, "%q %q %q\n", in.Name, in.Output, in.CallbackURL)
	for position, i := range order {
		n := &in.Jobs[i]
		node := &submit.GraphNode{WorkflowNode: models.WorkflowNode{
			WorkflowID: g.Workflow.ID, Key: n.Key, Position: position, After: n.After, OnParentFailure: n.OnParentFailure,
			Tolerated: tolerated[n.Key], JobID: models.NewJobID(), Overridden: []string{},
		}}
		if node.Digest, err = digest(n, uses[i], nodes); err != nil {
			return nil, err
		}
		fmt.Fprintf(whole, "%q %q %s %x %t\n", n.Key, n.After, n.OnParentFailure, node.Digest, n.Job.Reuse)
		nodes[n.Key] = node
		g.Nodes = append(g.Nodes, node)
	}
	takeOver(g.Nodes, earlier)
	for position, i := range order {
		n, node := &in.Jobs[i], g.Nodes[position]
		if n.Continues != "" {
			node.Continues = nodes[n.Continues].JobID
		}
		for _, key := range n.After {
			node.Parents = append(node.Parents, nodes[key].JobID)
		}
		node.Submission = n.Job
		node.Submission.Prompt, node.Submission.Params, err = names.rewrite(n, func(u use) string { return u.named(nodes[u.key].JobID) })
		if err != nil {
			return nil, err
		}
	}
	g.Workflow.RequestDigest = whole.Sum(nil)
	return g, nil
}

// tolerated returns the nodes whose failure does not fail the workflow: those that have dependents,
// all of which run anyway.
func (in *Input) tolerated() map[string]bool {
	is := map[string]bool{}
	for i := range in.Jobs {
		n := &in.Jobs[i]
		for _, key := range n.After {
			before, seen := is[key]
			is[key] = n.OnParentFailure == models.FailureContinue && (before || !seen)
		}
	}
	return is
}

// digest identifies the work of a node: what it asks for, and the work of those whose results it
// uses.
func digest(n *Node, uses []use, nodes map[string]*submit.GraphNode) ([]byte, error) {
	sum := sha256.New()
	job := n.Job
	job.Reuse = false // the work is the same
	if err := json.NewEncoder(sum).Encode(job); err != nil {
		return nil, fmt.Errorf("encode the node %s: %w", n.Key, err)
	}
	for _, u := range uses {
		fmt.Fprintf(sum, "%q %x\n", u.key, nodes[u.key].Digest)
	}
	return sum.Sum(nil), nil
}

// takeOver takes over the nodes that an earlier workflow completed and that stand for the same work. A
// draft or an approval without a result is taken over with all nodes after it, or not at all.
func takeOver(nodes []*submit.GraphNode, earlier map[string]*models.DoneNode) {
	same := func(n *submit.GraphNode) *models.DoneNode {
		if was := earlier[n.Key]; was != nil && string(was.Digest) == string(n.Digest) {
			return was
		}
		return nil
	}
	users := map[string]int{}
	for _, n := range slices.Backward(nodes) {
		was := same(n)
		if was != nil && (!was.Spent || users[n.Key] == allTaken) {
			n.JobID, n.Reused = was.JobID, true
		}
		for _, key := range n.After {
			if !n.Reused {
				users[key] = someNew
			} else if users[key] == 0 {
				users[key] = allTaken
			}
		}
	}
}

// What is known of the nodes after a node: all are taken over, or some are not.
const (
	allTaken = iota + 1
	someNew
)

// reusable returns the nodes of an earlier workflow that are COMPLETED, by their keys, without those whose
// results are gone.
func (w *Workflows) reusable(ctx context.Context, p jobs.Principal, id models.WorkflowID) (map[string]*models.DoneNode, error) {
	if id == "" {
		return nil, nil
	}
	seen, err := w.Get(ctx, p, id)
	if err == nil && seen.AccountID != p.AccountID {
		err = apierror.NotFound("workflow")
	}
	if err != nil {
		return nil, err
	}
	done, err := models.ListDoneNodes(ctx, w.DB, id)
	if err != nil {
		return nil, apierror.Wrap(err, "read the nodes of workflow %s", id)
	}
	known := w.Catalogue.Current()
	usable := map[string]*models.DoneNode{}
	for _, n := range done {
		model := known.At(n.Model, n.ModelVersion)
		if current, err := known.Model(n.Model); err == nil && n.Draft && current.Version != n.ModelVersion {
			n.Spent = true // another version cannot continue it
		}
		if n.Spent || n.Draft || n.ResultID != "" || model != nil && !model.RequiresVideo() {
			usable[n.Key] = n
		}
	}
	return usable, nil
}

// List returns those of the caller's workflows that f selects, or of all for operators and viewers,
// the newest first.
func (w *Workflows) List(ctx context.Context, p jobs.Principal, f models.WorkflowFilter, of paging.Request) (*paging.Page[*models.Workflow],
	error) {
	if !text.Valid(f.Name, 0, MaxName) {
		return nil, apierror.Invalid("name", "name can have up to %d printable characters.", MaxName)
	}
	f.AccountID = p.Scope()
	all := paging.ListOf("wfl", f)
	mark, err := all.Begin(of)
	if err != nil {
		return nil, err
	}
	found, err := models.ListWorkflows(ctx, w.DB, f, models.WorkflowID(mark), of.First+1)
	if err != nil {
		return nil, apierror.Wrap(err, "list workflows")
	}
	return paging.NewPage(all, found, of.First, func(w *models.Workflow) string { return string(w.ID) }), nil
}

// sweep bounds the workflows that one call of Forget deletes.
const sweep = 200

// Forget deletes workflows that ended longer ago than age, and returns how many. Then their jobs
// can be deleted, too.
func (w *Workflows) Forget(ctx context.Context, age time.Duration) (int, error) {
	n, err := models.DeleteOldWorkflows(ctx, w.DB, age, sweep)
	return n, apierror.Wrap(err, "delete old workflows")
}
