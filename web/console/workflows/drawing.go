package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/web/console/address"
	"github.com/reelay/reelay/web/ui"
	"github.com/samber/lo"
)

// nodesDrawn bounds the nodes of the graph: above that, it draws groups.
const nodesDrawn = 500

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
				node.Link = string(address.Job(n.JobID))
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
		models.JobFailed, models.JobRunning, models.JobCompleting, models.JobAssigned, models.JobQueued, models.JobBlocked, models.JobScheduled,
		models.JobCancelled,
	} {
		if states[string(state)] > 0 {
			return string(state)
		}
	}
	return string(models.JobCompleted)
}
