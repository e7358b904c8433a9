// Package cogengine reads the settings of models with the runtime cog: how the parameters of a job
// become the input of a prediction.
package cogengine

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/engine"
)

// Settings are those of a model with the runtime cog.
type Settings struct {
	// Prompt is the input that gets the job's prompt; "" means prompt, and "-" none.
	Prompt string `json:"prompt"`
	// Inputs says into which input a parameter goes; without it, into the one of its own name.
	// "" leaves it out.
	Inputs map[string]string `json:"inputs"`
	// Fixed are inputs with the same value in each prediction.
	Fixed map[string]any `json:"fixed"`
}

const maxInputs = 100

// ParseSettings reads and checks settings. params are the names of the model's parameters, or nil
// if they are not known.
func ParseSettings(data json.RawMessage, params []string) (*Settings, error) {
	s := &Settings{}
	if err := engine.Decode(engine.Cog, "prompt, inputs and fixed", data, s); err != nil {
		return nil, err
	}
	s.Prompt = cmp.Or(s.Prompt, "prompt")
	if len(s.Inputs) > maxInputs || len(s.Fixed) > maxInputs {
		return nil, engine.Problemf("", "inputs and fixed may have %d entries each", maxInputs)
	}
	if err := checkName(".prompt", strings.TrimPrefix(s.Prompt, "-")); err != nil {
		return nil, err
	}
	for _, param := range slices.Sorted(maps.Keys(s.Inputs)) {
		if params != nil && !slices.Contains(params, param) {
			return nil, engine.Problemf(".inputs", "inputs has %.80q, which is no parameter of the model", param)
		}
		if err := checkName(".inputs", s.Inputs[param]); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Fixed)) {
		if err := checkName(".fixed", name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func checkName(place, name string) error {
	if name != "" && !engine.ValidName(name) {
		return engine.Problemf(place, "%s has %.80q, which is no name of an input: names have letters, digits and underscores",
			place[1:], name)
	}
	return nil
}
