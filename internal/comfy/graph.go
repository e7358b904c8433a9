// Package comfy reads ComfyUI's graphs in the API format: what a model of the runtime comfyui is
// made of, and how the parameters of a job get into it.
package comfy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/engine"
)

// Graph is a graph in the API format: nodes by their ids.
type Graph map[string]*Node

// Node is one node of a graph.
type Node struct {
	Class string `json:"class_type"`
	// Inputs are values, or links to the output of another node: its id and a number.
	Inputs map[string]any `json:"inputs"`
	Meta   *Meta          `json:"_meta,omitempty"`
}

// Meta is what the editor says of a node.
type Meta struct {
	Title string `json:"title,omitempty"`
}

const (
	// MaxGraph is the largest graph, in bytes of JSON.
	MaxGraph = 256 << 10
	// MaxNodes is the largest number of its nodes.
	MaxNodes = 1000
)

var (
	validNode  = regexp.MustCompile(`^[A-Za-z0-9:_-]{1,64}$`)
	validClass = regexp.MustCompile(`^[^\x00-\x1f"\\<>]{1,128}$`)
)

// ParseGraph reads a graph. Its error says how to export the right form if the graph is the one of
// the editor. Numbers are json.Number.
func ParseGraph(data []byte) (Graph, error) {
	if len(data) > MaxGraph {
		return nil, engine.Problemf("", "the graph has %d bytes: at most %d are allowed", len(data), MaxGraph)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, engine.Problemf("", "the graph is not a JSON object: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, nodes := object["nodes"]; nodes {
		return nil, engine.Problemf("",
			"this is a graph as ComfyUI's editor saves it: in ComfyUI, open it and choose Workflow, Export (API)")
	}
	inner, wrapped := object["prompt"]
	if wrapped && len(object["class_type"]) == 0 && bytes.HasPrefix(bytes.TrimSpace(inner), []byte("{")) {
		return ParseGraph(inner) // the body of a call of /prompt
	}
	graph := Graph{}
	if len(object) == 0 || len(object) > MaxNodes {
		return nil, engine.Problemf("", "the graph has %d nodes: it must have 1 to %d", len(object), MaxNodes)
	}
	for _, id := range slices.Sorted(maps.Keys(object)) {
		if !validNode.MatchString(id) {
			return nil, engine.Problemf("", "the graph has a node with the id %.70q: ids have up to 64 letters, digits, and : _ -", id)
		}
		node := new(Node)
		decoder := json.NewDecoder(bytes.NewReader(object[id]))
		decoder.UseNumber()
		if err := decoder.Decode(node); err != nil {
			return nil, engine.Problemf("."+id, "the node %s is not one of the API format, with class_type and inputs: %s",
				id, strings.TrimPrefix(err.Error(), "json: "))
		}
		if !validClass.MatchString(node.Class) {
			return nil, engine.Problemf("."+id, "the node %s has no class_type: in ComfyUI, choose Workflow, Export (API)", id)
		}
		if node.Inputs == nil {
			node.Inputs = map[string]any{}
		}
		graph[id] = node
	}
	for _, id := range graph.Sorted() {
		for _, input := range slices.Sorted(maps.Keys(graph[id].Inputs)) {
			if from, ok := Link(graph[id].Inputs[input]); ok && graph[from] == nil {
				return nil, engine.Problemf("."+id+".inputs",
					"the input %.70s of the node %s comes from the node %.70q, which the graph does not have",
					input, id, from)
			}
		}
	}
	return graph, nil
}

// Link returns the id of the node from which a value comes, if it is a link.
func Link(value any) (node string, ok bool) {
	pair, ok := value.([]any)
	if !ok || len(pair) != 2 {
		return "", false
	}
	node, ok = pair[0].(string)
	_, number := pair[1].(json.Number)
	return node, ok && number
}

// Sorted returns the ids of the nodes: numbers by their value, then others.
func (g Graph) Sorted() []string {
	return slices.SortedFunc(maps.Keys(g), func(a, b string) int {
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		switch {
		case errX == nil && errY == nil:
			return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
		case errX == nil:
			return -1
		case errY == nil:
			return 1
		}
		return strings.Compare(a, b)
	})
}

// clone copies the graph so that its inputs can be set.
func (g Graph) clone() Graph {
	copied := Graph{}
	for id, node := range g {
		copied[id] = &Node{Class: node.Class, Inputs: maps.Clone(node.Inputs), Meta: node.Meta}
	}
	return copied
}

// Prefix is the input of nodes that save files: what their names begin with.
const Prefix = "filename_prefix"

// Saver returns the node whose file is the result if several save one: the first that saves a video by its
// class, or else the first; "" if none saves a file.
func (g Graph) Saver() string {
	savers := slices.Sorted(maps.Keys(g))
	savers = slices.DeleteFunc(savers, func(id string) bool { return g[id] == nil || g[id].Inputs[Prefix] == nil })
	for _, id := range savers {
		if class := strings.ToLower(g[id].Class); strings.Contains(class, "video") || strings.Contains(class, "webm") {
			return id
		}
	}
	return cmp.Or(append(savers, "")...)
}

// Folder is the folder of the engine's output in which all files of jobs lie.
const Folder = "reelay"

// SetPrefix names the files of all nodes that save files after the key of the work, and returns the
// names without number and extension, by node.
func (g Graph) SetPrefix(key string) map[string]string {
	names := map[string]string{}
	for id, node := range g {
		if _, saves := node.Inputs[Prefix]; saves {
			names[id] = key + "-n" + strings.ReplaceAll(id, ":", "-")
			node.Inputs[Prefix] = Folder + "/" + names[id]
		}
	}
	return names
}
