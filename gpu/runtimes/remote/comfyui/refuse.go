package comfyui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/gpu/runtime"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/internal/comfy"
)

// nodeError is one mistake that ComfyUI found in a node.
type nodeError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details string `json:"details"`
	Extra   struct {
		Input    string          `json:"input_name"`
		Received json.RawMessage `json:"received_value"`
	} `json:"extra_info"`
}

var noSuchNode = regexp.MustCompile(`node ['"]?([^'"]+?)['"]? (?:does not exist|not found)`)

// refusal explains a graph that the engine does not take. What this engine lacks, another may have.
func refusal(refused *remote.Refused, graph comfy.Graph) error {
	if refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden {
		return confused(refused)
	}
	var said struct {
		Error *struct {
			Type    string          `json:"type"`
			Message string          `json:"message"`
			Details string          `json:"details"`
			Extra   json.RawMessage `json:"extra_info"`
		} `json:"error"`
		Nodes map[string]struct {
			Class  string      `json:"class_type"`
			Errors []nodeError `json:"errors"`
		} `json:"node_errors"`
	}
	if json.Unmarshal(refused.Body, &said) != nil || said.Error == nil && len(said.Nodes) == 0 {
		return &remote.Confused{What: refused.Error()}
	}
	for _, id := range slices.Sorted(maps.Keys(said.Nodes)) {
		node := said.Nodes[id]
		for _, e := range node.Errors {
			class := node.Class
			if class == "" && graph[id] != nil {
				class = graph[id].Class
			}
			// The traceback of exception_during_inner_validation is the server's own.
			what := fmt.Sprintf("The node %s (%s): %s", id, class, remote.Quote(e.Message))
			if e.Details != "" && e.Type != "exception_during_inner_validation" {
				what += " (" + remote.Quote(e.Details) + ")"
			}
			if e.Type == "value_not_in_list" {
				lacks := fmt.Sprintf("%s.%s=%s", class, e.Extra.Input, text(e.Extra.Received))
				return lacking(lacks, what+".")
			}
			return runtime.Failf(runtime.InvalidInput, "ComfyUI refuses the graph. %s.", strings.TrimSuffix(what, "."))
		}
	}
	message := cmp.Or(said.Error.Message, said.Error.Type)
	if found := noSuchNode.FindStringSubmatch(message); found != nil {
		return lacking(found[1], remote.Quote(message))
	}
	if said.Error.Details != "" {
		message += " (" + said.Error.Details + ")"
	}
	return runtime.Failf(runtime.InvalidInput, "ComfyUI refuses the graph: %s.", strings.TrimSuffix(remote.Quote(message), "."))
}

// text returns a JSON text without quotes, or other JSON as it is.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// lacking is the failure of an engine that lacks a class of nodes, or a file of the list of an
// input. lacks is CLASS, or CLASS.INPUT=VALUE.
func lacking(lacks, what string) *runtime.Failure {
	return &runtime.Failure{Class: runtime.Transient, Message: "This ComfyUI lacks something that the model needs. " + what, Lacks: lacks}
}

// Class returns what the engine says of a class of nodes, or nil if it has none of that name.
func (e *Engine) Class(ctx context.Context, name string) (*comfy.Class, error) {
	answer, err := e.client.Do(ctx, remote.Call{Method: http.MethodGet, Path: "/object_info/" + url.PathEscape(name)})
	if err != nil {
		return nil, confused(err)
	}
	var found map[string]json.RawMessage
	if err := answer.JSON(&found); err != nil {
		return nil, err
	}
	if len(found[name]) == 0 {
		return nil, nil
	}
	class, err := comfy.ParseClass(found[name])
	if err != nil {
		return nil, &remote.Confused{What: err.Error()}
	}
	return class, nil
}

// has reports whether a list of values has one that begins with a text.
func has(values []any, begins string) bool {
	return slices.ContainsFunc(values, func(v any) bool { return strings.HasPrefix(fmt.Sprint(v), begins) })
}

// Load asks whether the engine has the nodes of a model's graph, and the files that the graph
// itself names.
func (e *Engine) Load(ctx context.Context, _ string, data json.RawMessage) error {
	settings, err := comfy.ParseSettings(data, nil)
	if err != nil || settings.Graph == nil {
		return nil // Prepare says it
	}
	bound := map[comfy.Target]bool{}
	for _, targets := range settings.Inputs {
		for _, target := range targets {
			bound[comfy.Target{Node: target.Node, Input: target.Input}] = true
		}
	}
	known := map[string]*comfy.Class{}
	for _, id := range settings.Graph.Sorted() {
		node := settings.Graph[id]
		class, ok := known[node.Class]
		if !ok {
			if class, err = e.Class(ctx, node.Class); err != nil {
				return err
			}
			known[node.Class] = class
		}
		if class == nil {
			return lacking(node.Class, fmt.Sprintf("It has no node %s: install the custom node.", node.Class))
		}
		for input, value := range node.Inputs {
			chosen, isText := value.(string)
			if !isText || bound[comfy.Target{Node: id, Input: input}] || class.Inputs[input].Kind != comfy.List {
				continue
			}
			if !slices.Contains(class.Inputs[input].Values, value) {
				return lacking(fmt.Sprintf("%s.%s=%s", node.Class, input, chosen),
					fmt.Sprintf("The node %s (%s) needs %s = %s, which it does not have.", id, node.Class, input, remote.Quote(chosen)))
			}
		}
	}
	return nil
}

// Has looks again for what the engine lacked.
func (e *Engine) Has(ctx context.Context, lacks string) (bool, error) {
	name, rest, file := strings.Cut(lacks, ".")
	input, value, listed := strings.Cut(rest, "=")
	if !file || !listed {
		name = lacks
	}
	class, err := e.Class(ctx, name)
	if err != nil || class == nil || name == lacks {
		return class != nil, err
	}
	return has(class.Inputs[input].Values, value), nil
}
