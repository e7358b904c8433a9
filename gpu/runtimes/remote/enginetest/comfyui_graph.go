package enginetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/reelay/reelay/gpu/runtimes/remote/enginetest/recording"
)

//go:embed testdata/recordings/comfyui.json
var recordedComfyUI []byte

// nodeInfo is what /object_info says of a class, as far as the fake uses it.
type nodeInfo struct {
	Input    map[string]map[string]any `json:"input"`
	Output   []string                  `json:"output"`
	IsOutput bool                      `json:"output_node"`

	all object
}

func (n nodeInfo) MarshalJSON() ([]byte, error) {
	all := maps.Clone(n.all)
	all["input"] = n.Input // which Offers changes
	return json.Marshal(all)
}

func recorded(t testing.TB, text []byte) []recording.Exchange {
	var exchanges []recording.Exchange
	if err := json.Unmarshal(text, &exchanges); err != nil {
		t.Fatal(err)
	}
	return exchanges
}

// recordedNodes are the classes whose /object_info was recorded.
func recordedNodes(t testing.TB) map[string]nodeInfo {
	nodes := map[string]nodeInfo{}
	for _, e := range recorded(t, recordedComfyUI) {
		class, ok := strings.CutPrefix(e.Name, "object info ")
		if !ok || string(e.Answer) == "{}" {
			continue
		}
		var all map[string]object
		if json.Unmarshal(e.Answer, &all) != nil || json.Unmarshal(e.Answer, &nodes) != nil {
			t.Fatalf("what was recorded of %s is no /object_info", class)
		}
		info := nodes[class]
		info.all = all[class]
		nodes[class] = info
	}
	return nodes
}

// graph is a graph in API format.
type graph map[string]json.RawMessage

type graphNode struct {
	Class  string         `json:"class_type"`
	Inputs map[string]any `json:"inputs"`
}

func (g graph) node(id string) graphNode {
	var n graphNode
	_ = json.Unmarshal(g[id], &n) // what is no node has no class
	return n
}

// link returns the node that an input comes from.
func link(value any) (id string, slot int, isLink, ok bool) {
	list, isLink := value.([]any)
	if !isLink || len(list) != 2 {
		return "", 0, isLink, false
	}
	id, isID := list[0].(string)
	number, isNumber := list[1].(float64)
	return id, int(number), true, isID && isNumber
}

// order returns the nodes on the way to some others, each after those that it needs.
func (g graph) order(to []string) []string {
	var order []string
	var visit func(id string)
	visit = func(id string) {
		if slices.Contains(order, id) || g[id] == nil {
			return
		}
		n := g.node(id)
		for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
			if from, _, _, ok := link(n.Inputs[name]); ok {
				visit(from)
			}
		}
		order = append(order, id)
	}
	for _, id := range to {
		visit(id)
	}
	return order
}

// signature is equal for nodes that compute the same.
func (g graph) signature(id string) string {
	n := g.node(id)
	var text strings.Builder
	fmt.Fprintf(&text, "%s(", n.Class)
	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		if from, slot, _, ok := link(n.Inputs[name]); ok {
			fmt.Fprintf(&text, "%s=%s.%d,", name, g.signature(from), slot)
		} else {
			fmt.Fprintf(&text, "%s=%#v,", name, n.Inputs[name])
		}
	}
	return text.String() + ")"
}

// number returns the first input of that name.
func (g graph) number(order []string, name string, otherwise int) (id string, value int) {
	for _, id := range order {
		if value, ok := g.node(id).Inputs[name].(float64); ok {
			return id, int(value)
		}
	}
	return "", otherwise
}

// finding is the result of checking a graph.
type finding struct {
	kind, message, details string // set if nothing of it can run
	outputs                []string
	errors                 object
}

// check validates a graph as ComfyUI does.
func (c *ComfyUI) check(g graph) finding {
	var outputs []string
	for _, id := range slices.Sorted(maps.Keys(g)) {
		class := g.node(id).Class
		info, known := c.nodes[class]
		switch {
		case class == "":
			return finding{kind: "invalid_prompt", message: "Cannot execute because a node is missing the class_type property.",
				details: "Node ID '#" + id + "'"}
		case !known:
			return finding{kind: "invalid_prompt", message: "Cannot execute because node " + class + " does not exist.",
				details: "Node ID '#" + id + "'"}
		case info.IsOutput:
			outputs = append(outputs, id)
		}
	}
	if outputs == nil {
		return finding{kind: "prompt_no_outputs", message: "Prompt has no outputs"}
	}
	f := finding{errors: object{}}
	for _, output := range outputs {
		good := true
		for _, id := range g.order([]string{output}) {
			if problems := c.problems(g, id); len(problems) > 0 {
				good = false
				f.errors[id] = object{"errors": problems, "dependent_outputs": []string{output}, "class_type": g.node(id).Class}
			}
		}
		if good {
			f.outputs = append(f.outputs, output)
		}
	}
	if f.outputs == nil {
		f.kind, f.message = "prompt_outputs_failed_validation", "Prompt outputs failed validation"
	}
	return f
}

func problem(kind, message, details string, extra object) object {
	return object{"type": kind, "message": message, "details": details, "extra_info": extra}
}

// problems returns what is wrong with the inputs of a node.
func (c *ComfyUI) problems(g graph, id string) []object {
	n := g.node(id)
	var found []object
	for _, group := range []string{"required", "optional"} {
		inputs := c.nodes[n.Class].Input[group]
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			value, given := n.Inputs[name]
			switch {
			case given:
				config, _ := inputs[name].([]any)
				found = append(found, c.problemsOf(g, name, config, value, n.Class)...)
			case group == "required":
				found = append(found, problem("required_input_missing", "Required input is missing", name, object{"input_name": name}))
			}
		}
	}
	return found
}

func (c *ComfyUI) problemsOf(g graph, name string, config []any, value any, class string) []object {
	extra := object{"input_name": name, "input_config": describe(config), "received_value": value}
	if from, slot, isLink, ok := link(value); isLink {
		delete(extra, "received_value")
		extra["linked_node"] = value
		switch {
		case !ok:
			delete(extra, "linked_node")
			extra["received_value"] = value
			return []object{problem("bad_linked_input", "Bad linked input, must be a length-2 list of [node_id, slot_index]", name, extra)}
		case g[from] == nil:
			extra["exception_type"], extra["exception_message"], extra["traceback"] = "KeyError", "'"+from+"'", []string{"…"}
			return []object{problem("exception_during_inner_validation", "Exception when validating inner node", "'"+from+"'", extra)}
		}
		if gives := c.nodes[g.node(from).Class].Output; slot >= len(gives) || gives[slot] != config[0] {
			extra["received_type"] = gives[min(slot, len(gives)-1)]
			return []object{problem("return_type_mismatch", "Return type mismatch between linked nodes", name, extra)}
		}
		return nil
	}
	if class == "LoadImage" && name == "image" {
		if _, err := os.Stat(filepath.Join(c.Dir, "input", fmt.Sprint(value))); err != nil || !below(fmt.Sprint(value)) {
			return []object{problem("custom_validation_failed", "Custom validation failed for node",
				fmt.Sprintf("image - Invalid image file: %v", value), object{"input_name": name})}
		}
		return nil
	}
	return valueProblems(name, config, value, extra)
}

// describe gives an input's configuration its second part.
func describe(config []any) []any {
	if len(config) == 1 {
		return append(slices.Clone(config), object{})
	}
	return config
}

func valueProblems(name string, config []any, value any, extra object) []object {
	options, _ := describe(config)[1].(map[string]any)
	list, isList := config[0].([]any)
	if config[0] == "COMBO" {
		list, isList = options["options"].([]any)
	}
	if isList && !slices.Contains(list, value) {
		return []object{problem("value_not_in_list", "Value not in list", fmt.Sprintf("%s: '%v' not in %v", name, value, list), extra)}
	}
	if config[0] != "INT" && config[0] != "FLOAT" {
		return nil
	}
	number, isNumber := value.(float64)
	if written, ok := value.(string); ok {
		var err error
		number, err = strconv.ParseFloat(written, 64)
		isNumber = err == nil
	}
	if !isNumber {
		message := fmt.Sprintf("invalid literal for int() with base 10: '%v'", value)
		extra["exception_message"] = message
		return []object{problem("invalid_input_type", fmt.Sprintf("Failed to convert an input value to a %v value", config[0]),
			fmt.Sprintf("%s, %v, %s", name, value, message), extra)}
	}
	if least, ok := options["min"].(float64); ok && number < least {
		return []object{problem("value_smaller_than_min", fmt.Sprintf("Value %v smaller than min of %v", number, least), name, extra)}
	}
	if most, ok := options["max"].(float64); ok && number > most {
		return []object{problem("value_bigger_than_max", fmt.Sprintf("Value %v bigger than max of %v", number, most), name, extra)}
	}
	return nil
}
