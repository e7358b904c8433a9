package comfy

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Class is what an engine's /object_info says of a class of nodes.
type Class struct {
	// Inputs are the inputs that a graph can set.
	Inputs map[string]Input
}

// Input is what an engine says of an input of a class.
type Input struct {
	// Kind is INT, FLOAT, STRING, BOOLEAN, the type of a link, or List.
	Kind string
	// Values are those of an input with the kind List.
	Values []any
	Options
}

// List is the kind of an input that takes one of a list of values.
const List = "COMBO"

// Options bound the values of an input.
type Options struct {
	Min     json.Number `json:"min"`
	Max     json.Number `json:"max"`
	Step    json.Number `json:"step"`
	Tooltip string      `json:"tooltip"`
}

// ParseClass reads what /object_info has under the name of a class. Inputs of an unknown form are
// left out: custom nodes have many.
func ParseClass(data json.RawMessage) (*Class, error) {
	var info struct {
		Input map[string]json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("read /object_info: %w", err)
	}
	c := &Class{Inputs: map[string]Input{}}
	for _, group := range []string{"required", "optional"} {
		var inputs map[string]json.RawMessage
		if json.Unmarshal(info.Input[group], &inputs) != nil {
			continue
		}
		for name, spec := range inputs {
			if in, ok := parseInput(spec); ok {
				c.Inputs[name] = in
			}
		}
	}
	return c, nil
}

// parseInput reads [KIND, {options}], [[values …], {options}] or ["COMBO", {"options": [values …]}].
func parseInput(data json.RawMessage) (in Input, ok bool) {
	var spec []json.RawMessage
	if json.Unmarshal(data, &spec) != nil || len(spec) == 0 {
		return in, false
	}
	var options struct {
		Options
		Values []any `json:"options"`
	}
	if len(spec) > 1 {
		_ = decode(spec[1], &options) // without it, the input has no bounds
	}
	in.Options = options.Options
	if decode(spec[0], &in.Values) == nil && in.Values != nil {
		in.Kind = List
		return in, true
	}
	if json.Unmarshal(spec[0], &in.Kind) != nil {
		return in, false
	}
	if in.Kind == List {
		in.Values = options.Values
	}
	return in, in.Kind != List || in.Values != nil
}

// decode reads JSON with its numbers as they are written.
func decode(data json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(into)
}
