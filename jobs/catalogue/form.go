package catalogue

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FromForm converts parameters that came as texts, as in a form, into the types that the model's
// schema has: a number, true or false where it allows no text, and a list for keys that count from
// 0. What it cannot convert stays as it is, for the schema to refuse.
func (m *Model) FromForm(params map[string]any) map[string]any {
	typed := make(map[string]any, len(params))
	for name, value := range params {
		typed[name] = fromForm(schemaAt(m.compiled, []string{name}), value)
	}
	return typed
}

func fromForm(s *jsonschema.Schema, value any) any {
	switch v := value.(type) {
	case string:
		var read any
		if allows(s, "string") || json.Unmarshal([]byte(v), &read) != nil {
			return v
		}
		if _, isNumber := read.(float64); isNumber {
			return json.Number(v) // not rounded
		}
		return read
	case map[string]any:
		if s.Types == nil || !allows(s, "array") {
			typed := make(map[string]any, len(v))
			for name, inner := range v {
				typed[name] = fromForm(schemaAt(s, []string{name}), inner)
			}
			return typed
		}
		list := make([]any, len(v))
		for i := range list {
			inner, counted := v[strconv.Itoa(i)]
			if !counted {
				return v
			}
			list[i] = fromForm(schemaAt(s, []string{strconv.Itoa(i)}), inner)
		}
		return list
	}
	return value
}

// allows reports whether a schema allows values of a type, as far as its types say.
func allows(s *jsonschema.Schema, kind string) bool {
	if s.Types != nil {
		return slices.Contains(s.Types.ToStrings(), kind)
	}
	if s.Enum == nil || kind != "string" {
		return true
	}
	return slices.ContainsFunc(s.Enum.Values, func(v any) bool { _, text := v.(string); return text })
}
