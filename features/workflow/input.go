package workflow

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
)

// Input is a workflow as a client describes it. Nil and empty values mean the default.
type Input struct {
	// Name has 1 to 100 characters. Several workflows may have it.
	Name string
	Jobs []Node
	// IdempotencyKey has 1 to 255 characters, and is unique among the account's workflows.
	IdempotencyKey *string
	// CallbackURL is called when the workflow ends.
	CallbackURL string
	// Output is the key of the node whose result is the workflow's.
	Output string
	// Reuse is an earlier workflow of the account. Its completed nodes are taken over where the
	// same key stands for the same work.
	Reuse models.WorkflowID
}

// Node is a node as a client describes it.
type Node struct {
	// Key names the node in the workflow: up to 100 letters, digits, - and _, in parts that dots
	// separate.
	Key string
	// After are the keys of nodes that must end first, in addition to those whose results Job uses.
	After           []string
	OnParentFailure models.FailurePolicy
	// Continues is the key of an approval of drafts, or "". The node continues the draft that is picked:
	// Job has neither a prompt nor params.
	Continues string
	// Job is what the node submits. It has no idempotency key.
	Job submit.Submission
}

const (
	// MaxNodes is how many nodes a workflow can have.
	MaxNodes = 10_000
	// MaxEdges is how many dependencies they can have together.
	MaxEdges = 100_000
	// MaxName and MaxKey are in characters.
	MaxName = 100
	MaxKey  = 100
	// maxIdempotencyKey is in characters.
	maxIdempotencyKey = 255
)

// KeyForm is the form of a node's key, a regular expression.
const KeyForm = `^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`

var keyForm = regexp.MustCompile(KeyForm)

// check validates all but the jobs themselves and the shape of the graph.
func (in *Input) check() error {
	switch {
	case !text.Valid(in.Name, 1, MaxName) || strings.TrimSpace(in.Name) != in.Name:
		return apierror.Invalid("name", "The name must have 1 to %d printable characters, without spaces around them.", MaxName)
	case len(in.Jobs) == 0:
		return apierror.Invalid("jobs", "The workflow has no jobs: name at least one.")
	case len(in.Jobs) > MaxNodes:
		return apierror.Invalid("jobs", "The workflow has %d jobs; the maximum is %d. Split it.", len(in.Jobs), MaxNodes)
	case in.IdempotencyKey != nil && !text.Valid(*in.IdempotencyKey, 1, maxIdempotencyKey):
		return apierror.Invalid("idempotencyKey", "idempotencyKey must have 1 to %d printable characters.", maxIdempotencyKey)
	case in.Reuse != "" && !in.Reuse.Valid():
		return apierror.NotFound("workflow").In("reuse")
	}
	seen := make(map[string]bool, len(in.Jobs))
	for i := range in.Jobs {
		n := &in.Jobs[i]
		switch {
		case len(n.Key) > MaxKey || !keyForm.MatchString(n.Key):
			return apierror.Invalid("jobs",
				"The key %q of job %d is not valid: a key has up to %d letters, digits, - and _, and parts are separated by dots, as in shots.s1.",
				text.Clip(text.Printable(n.Key), 2*MaxKey), i+1, MaxKey)
		case seen[n.Key]:
			return apierror.Invalid("jobs."+n.Key, "The key %s occurs twice: each node needs its own.", n.Key)
		case n.Job.IdempotencyKey != nil:
			return apierror.Invalid("jobs."+n.Key+".job.idempotencyKey",
				"The node %s has an idempotencyKey: give one to the whole workflow instead.", n.Key)
		}
		n.OnParentFailure = cmp.Or(n.OnParentFailure, models.FailureCascade)
		seen[n.Key] = true
	}
	if err := in.checkContinues(seen); err != nil {
		return err
	}
	if in.Output != "" && !seen[in.Output] {
		return apierror.Invalid("output", "The workflow's output is the node %s, which does not exist.",
			text.Clip(text.Printable(in.Output), MaxKey))
	}
	return nil
}

// checkContinues checks that each node continues another one, which no other node does.
func (in *Input) checkContinues(known map[string]bool) error {
	continued := map[string]string{}
	for i := range in.Jobs {
		n := &in.Jobs[i]
		approval := n.Continues
		switch {
		case approval == "":
			continue
		case !known[approval] || approval == n.Key:
			return apierror.Invalid("jobs."+n.Key+".continues", "The node %s continues %s: name another node, an approval of drafts.", n.Key,
				text.Clip(text.Printable(approval), MaxKey))
		case continued[approval] != "":
			return apierror.Invalid("jobs."+n.Key+".continues", "The nodes %s and %s continue %s: a draft is continued once.", continued[approval],
				n.Key, approval)
		}
		continued[approval] = n.Key
	}
	return nil
}

// arrange sets all that a node waits for, and returns the indices of the nodes with parents first,
// in the order of the input where that allows it.
func (in *Input) arrange(uses [][]use) ([]int, error) {
	index := make(map[string]int, len(in.Jobs))
	for i := range in.Jobs {
		index[in.Jobs[i].Key] = i
	}
	edges := 0
	children, open := make([][]int, len(in.Jobs)), make([]int, len(in.Jobs))
	for i := range in.Jobs {
		n := &in.Jobs[i]
		after := append([]string{}, n.After...) // not nil: nil is NULL
		for _, u := range uses[i] {
			after = append(after, u.key)
		}
		n.After = distinct(after)
		if edges += len(n.After); edges > MaxEdges {
			return nil, apierror.Invalid("jobs",
				"The workflow has more than %d dependencies: put one node between the many nodes and those that wait for them.", MaxEdges)
		}
		for _, key := range n.After {
			parent, known := index[key]
			switch {
			case !known:
				return nil, apierror.Invalid("jobs."+n.Key+".after", "The node %s comes after %s, which does not exist.", n.Key,
					text.Clip(text.Printable(key), MaxKey))
			case parent == i:
				return nil, apierror.Invalid("jobs."+n.Key+".after", "The node %s comes after itself.", n.Key)
			}
			children[parent] = append(children[parent], i)
		}
		open[i] = len(n.After)
	}
	var order []int
	for i, n := range open {
		if n == 0 {
			order = append(order, i)
		}
	}
	for next := 0; next < len(order); next++ {
		for _, child := range children[order[next]] {
			if open[child]--; open[child] == 0 {
				order = append(order, child)
			}
		}
	}
	if len(order) < len(in.Jobs) {
		return nil, apierror.Invalid("jobs", "The workflow has a cycle, so none of these jobs can start: %s. Remove one of the dependencies.",
			in.cycle(index, open))
	}
	return order, nil
}

func distinct(keys []string) []string {
	seen := make(map[string]bool, len(keys))
	return slices.DeleteFunc(keys, func(key string) bool {
		was := seen[key]
		seen[key] = true
		return was
	})
}

// maxCycle is how many nodes of a cycle a message names.
const maxCycle = 10

// cycle returns a path around a cycle, for people. open has, for each node, how many of its parents
// could not be put in order: each of those has a parent that could not, either.
func (in *Input) cycle(index map[string]int, open []int) string {
	at := slices.IndexFunc(open, func(n int) bool { return n > 0 })
	var path []int
	place := map[int]int{}
	for {
		if from, been := place[at]; been {
			path = append(path[from:], at)
			break
		}
		place[at] = len(path)
		path = append(path, at)
		for _, key := range in.Jobs[at].After {
			if parent := index[key]; open[parent] > 0 {
				at = parent
				break
			}
		}
	}
	slices.Reverse(path) // parents come first
	var names []string
	for i, n := range path {
		if i == maxCycle && len(path) > maxCycle+1 {
			names = append(names, "…")
			break
		}
		names = append(names, in.Jobs[n].Key)
	}
	return strings.Join(names, " → ")
}
