// Package jsondiff compares JSON objects value by value.
package jsondiff

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Difference is one value that a change adds, removes or replaces.
type Difference struct {
	// Path leads to the value: keys, joined with dots.
	Path string
	// Before and After are nil where there is no value.
	Before, After json.RawMessage
}

// Compare returns the differences between two JSON values, in the order of their paths. Lists
// are compared as wholes. Both must be valid JSON.
func Compare(before, after json.RawMessage) []Difference {
	return differences(nil, decoded(before), decoded(after), nil)
}

// decoded decodes JSON, with numbers as they were written.
func decoded(value json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var into any
	_ = d.Decode(&into) // it is valid
	return into
}

// differences appends the differences between two values.
func differences(to []Difference, before, after any, path []string) []Difference {
	b, isMap := before.(map[string]any)
	a, areMaps := after.(map[string]any)
	if isMap && areMaps {
		keys := maps.Clone(b)
		maps.Copy(keys, a)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			to = differences(to, b[key], a[key], append(slices.Clip(path), key))
		}
		return to
	}
	was, is := encoded(before), encoded(after)
	if bytes.Equal(was, is) {
		return to
	}
	return append(to, Difference{strings.Join(path, "."), was, is})
}

func encoded(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	data, _ := json.Marshal(value) // it was decoded from JSON
	return data
}
