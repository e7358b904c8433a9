package enginetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

//go:embed testdata/recordings/cog.json
var recordedCog []byte

// inputs is the schema of a predictor's input.
type inputs struct {
	Required   []string
	Properties map[string]struct {
		Type             string
		Minimum, Maximum *float64
	}
}

// recordedInputs returns the recorded /openapi.json, and what it says of the input.
func recordedInputs(t testing.TB) (json.RawMessage, inputs) {
	for _, e := range recorded(t, recordedCog) {
		if e.Name != "openapi" {
			continue
		}
		var schema struct {
			Components struct{ Schemas struct{ Input inputs } }
		}
		if err := json.Unmarshal(e.Answer, &schema); err != nil {
			t.Fatal(err)
		}
		return e.Answer, schema.Components.Schemas.Input
	}
	t.Fatal("no /openapi.json of Cog was recorded")
	return nil, inputs{}
}

// problems returns what is wrong with an input, in Cog's words. It lets inputs pass that it does not know.
func (i inputs) problems(input object) []object {
	var found []object
	problem := func(name, kind, message string) {
		found = append(found, object{"loc": []string{"body", "input", name}, "msg": message, "type": kind})
	}
	for _, name := range i.Required {
		if _, ok := input[name]; !ok {
			problem(name, "value_error.missing", "Field required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(input)) {
		schema, known := i.Properties[name]
		number, isNumber := input[name].(float64)
		_, isText := input[name].(string)
		written, _ := json.Marshal(input[name]) // it came as JSON
		switch {
		case !known:
		case schema.Type == "string" && !isText, schema.Type != "string" && !isNumber:
			problem(name, "value_error", fmt.Sprintf("%s is not of type %q", written, schema.Type))
		case schema.Minimum != nil && number < *schema.Minimum:
			problem(name, "value_error", fmt.Sprintf("%s is less than the minimum of %v", written, *schema.Minimum))
		case schema.Maximum != nil && number > *schema.Maximum:
			problem(name, "value_error", fmt.Sprintf("%s is greater than the maximum of %v", written, *schema.Maximum))
		}
	}
	return found
}
