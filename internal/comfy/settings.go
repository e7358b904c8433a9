package comfy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/reelay/reelay/internal/engine"
)

// Settings are those of a model with the runtime comfyui. They have either a graph, or what graphs
// of customers may have.
type Settings struct {
	Graph Graph
	// Inputs says into which inputs of nodes a parameter goes. The parameter named prompt is the
	// job's prompt.
	Inputs map[string]Targets
	// Output is the node whose file is the result; "" if any node's is.
	Output string
	// Any lets a job bring the graph in its parameter graph.
	Any *Allowed
}

// Allowed is what a customer's graph may have.
type Allowed struct {
	// Nodes are the classes of its nodes.
	Nodes []string `json:"nodes"`
	// Files are the names of models and other files of the engine that its nodes may load.
	Files []string `json:"files"`
}

// Targets are inputs of nodes. In JSON they are one text or a list.
type Targets []Target

// Target is one input of a node.
type Target struct {
	Node, Input string
	// Times and Plus compute a whole number from the parameter, such as that of frames from seconds.
	// Times is 0 if the input gets the parameter as it is.
	Times, Plus float64
}

var target = regexp.MustCompile(`^([^.]+)\.(.+?)(?:\*([0-9]{1,6}(?:\.[0-9]{1,6})?)(?:\+([0-9]{1,6}))?)?$`)

// String returns the target as ParseTarget reads it.
func (t Target) String() string {
	says := t.Node + "." + t.Input
	if t.Times != 0 {
		says += "*" + strconv.FormatFloat(t.Times, 'f', -1, 64)
	}
	if t.Plus != 0 {
		says += "+" + strconv.FormatFloat(t.Plus, 'f', -1, 64)
	}
	return says
}

// ParseTarget reads NODE.INPUT, NODE.INPUT*TIMES or NODE.INPUT*TIMES+PLUS.
func ParseTarget(text string) (Target, error) {
	found := target.FindStringSubmatch(text)
	if found == nil {
		return Target{}, fmt.Errorf("%.80q must be the id of a node, a dot and the name of an input, such as 6.text, or 3.length*24+1",
			text)
	}
	t := Target{Node: found[1], Input: found[2]}
	t.Times, _ = strconv.ParseFloat(found[3], 64) // 0 if there is none
	t.Plus, _ = strconv.ParseFloat(found[4], 64)
	return t, nil
}

// value returns what the input gets of a parameter.
func (t Target) value(param any) any {
	number, ok := param.(json.Number)
	count, err := number.Float64()
	if t.Times == 0 || !ok || err != nil {
		return param
	}
	return json.Number(strconv.FormatFloat(math.Round(count*t.Times)+t.Plus, 'f', -1, 64))
}

// UnmarshalJSON reads a target, or a list of them.
func (t *Targets) UnmarshalJSON(data []byte) error {
	var all []string
	if bytes.HasPrefix(data, []byte(`"`)) {
		all = make([]string, 1)
		if err := json.Unmarshal(data, &all[0]); err != nil {
			return err
		}
	} else if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*t = nil
	for _, text := range all {
		target, err := ParseTarget(text)
		if err != nil {
			return err
		}
		*t = append(*t, target)
	}
	return nil
}

// MarshalJSON writes one target as a text, and others as a list.
func (t Targets) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0].String())
	}
	all := make([]string, len(t))
	for i, target := range t {
		all[i] = target.String()
	}
	return json.Marshal(all)
}

const (
	maxTargets = 50
	maxAllowed = 500
)

// ParseSettings reads and checks settings. params are the names of the model's parameters, or nil
// if they are not known.
func ParseSettings(data json.RawMessage, params []string) (*Settings, error) {
	var read struct {
		Graph  json.RawMessage    `json:"graph"`
		Inputs map[string]Targets `json:"inputs"`
		Output string             `json:"output"`
		Any    *Allowed           `json:"any"`
	}
	if err := engine.Decode(engine.ComfyUI, "graph, inputs and output, or any", data, &read); err != nil {
		return nil, err
	}
	s := &Settings{Inputs: read.Inputs, Output: read.Output, Any: read.Any}
	if s.Any != nil {
		if err := s.checkAny(read.Graph, params); err != nil {
			return nil, err
		}
		return s, nil
	}
	if len(read.Graph) == 0 {
		return nil, engine.Problemf("",
			"graph is missing: write the graph as ComfyUI's Workflow, Export (API) saves it, or use reelay models import-comfyui")
	}
	graph, err := ParseGraph(read.Graph)
	if err != nil {
		return nil, engine.Within(".graph", err)
	}
	s.Graph = graph
	if err := s.checkGraph(params); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Settings) checkAny(graph json.RawMessage, params []string) error {
	switch {
	case params != nil && !slices.Contains(params, GraphParam):
		return engine.Problemf(".any", "any needs the parameter %s in params: an object", GraphParam)
	case len(graph) > 0 || len(s.Inputs) > 0 || s.Output != "":
		return engine.Problemf("", "settings with any have no graph, inputs or output: the job brings its graph")
	case len(s.Any.Nodes) == 0 || len(s.Any.Nodes) > maxAllowed:
		return engine.Problemf(".any.nodes", "any.nodes must name 1 to %d classes of nodes", maxAllowed)
	case len(s.Any.Files) > maxAllowed:
		return engine.Problemf(".any.files", "any.files may name %d files", maxAllowed)
	}
	for _, class := range s.Any.Nodes {
		if !validClass.MatchString(class) {
			return engine.Problemf(".any.nodes", "any.nodes has %.80q, which is no class of nodes", class)
		}
	}
	return nil
}

func (s *Settings) checkGraph(params []string) error {
	if s.Output != "" && s.Graph[s.Output] == nil {
		return engine.Problemf(".output", "output is the node %.70q, which the graph does not have", s.Output)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(s.Graph)), func(n *Node) bool { _, ok := n.Inputs[Prefix]; return ok }) {
		return engine.Problemf(".graph", "no node of the graph saves a file: one must have the input %s, such as SaveVideo", Prefix)
	}
	count := 0
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		targets := s.Inputs[name]
		switch {
		case !engine.ValidName(name):
			return engine.Problemf(".inputs", "inputs has the parameter %.80q: names have letters, digits and underscores", name)
		case params != nil && name != "prompt" && !slices.Contains(params, name):
			return engine.Problemf(".inputs."+name, "inputs has %s, which is no parameter of the model", name)
		case len(targets) == 0:
			return engine.Problemf(".inputs."+name, "inputs.%s names no input of a node", name)
		}
		for _, target := range targets {
			node := s.Graph[target.Node]
			if node == nil {
				return engine.Problemf(".inputs."+name, "inputs.%s is %s: the graph has no node %.70q", name, target, target.Node)
			}
			value, ok := node.Inputs[target.Input]
			_, linked := Link(value)
			switch {
			case !ok:
				return engine.Problemf(".inputs."+name, "inputs.%s is %s: the node has no input %.70q", name, target, target.Input)
			case linked:
				return engine.Problemf(".inputs."+name, "inputs.%s is %s: that input comes from another node", name, target)
			case target.Input == Prefix:
				return engine.Problemf(".inputs."+name, "inputs.%s is %s: Reelay names the files itself", name, target)
			}
			count++
		}
	}
	if count > maxTargets {
		return engine.Problemf(".inputs", "inputs has %d targets: at most %d are allowed", count, maxTargets)
	}
	return nil
}

// Bind returns the graph of a job. values are its parameters, and prompt; files are the engine's
// names of its files, by parameter. A parameter without a value leaves what the graph has.
func (s *Settings) Bind(values map[string]any, files map[string]string) Graph {
	graph := s.Graph.clone()
	for name, targets := range s.Inputs {
		value, ok := values[name]
		if file, isFile := files[name]; isFile {
			value, ok = file, true
		}
		if !ok || value == nil {
			continue
		}
		for _, target := range targets {
			graph[target.Node].Inputs[target.Input] = target.value(value)
		}
	}
	return graph
}
