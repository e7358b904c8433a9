package jobs

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxJSONDepth is far more than anybody nests, and far less than PostgreSQL's
// stack holds.
const maxJSONDepth = 64

// readJSON decodes JSON from outside, with its numbers as they were written. It
// returns INVALID_INPUT for what PostgreSQL could not hold as jsonb.
func readJSON(field string, raw json.RawMessage, maxBytes int) (any, error) {
	if len(raw) > maxBytes {
		return nil, invalid(field, "%s may take %d bytes of JSON; this takes %d.", field, maxBytes, len(raw))
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, invalid(field, "%s is not JSON.", field)
	}
	return value, storable(field, value, maxJSONDepth)
}

// storedJSON is readJSON for what is kept as it came; nil stays nil.
func storedJSON(field string, raw json.RawMessage, maxBytes int) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	value, err := readJSON(field, raw, maxBytes)
	if err != nil {
		return nil, err
	}
	stored, err := json.Marshal(value)
	return stored, wrap(err, "encode %s", field)
}

func storable(field string, value any, depth int) error {
	if depth == 0 {
		return invalid(field, "%s is nested more than %d levels deep.", field, maxJSONDepth)
	}
	switch v := value.(type) {
	case string:
		// bun writes the six characters \u0000 as if they were NUL, too.
		if strings.ContainsRune(v, 0) || strings.Contains(v, `\u0000`) {
			return invalid(field, "%s holds a NUL character (U+0000): leave it out.", field)
		}
	case json.Number:
		if !plainNumber(v) {
			return invalid(field, "%s holds the number %s, which is out of range.", field, clip(v.String(), 32))
		}
	case []any:
		for _, item := range v {
			if err := storable(field, item, depth-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, item := range v {
			if err := storable(field, name, depth); err != nil {
				return err
			}
			if err := storable(field, item, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainNumber tells whether a number is one that a float64 is near to: not too
// large, and not rounded to 0.
func plainNumber(n json.Number) bool {
	f, err := strconv.ParseFloat(n.String(), 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return err == nil && !math.IsInf(f, 0) && (f != 0 || !strings.ContainsAny(mantissa, "123456789"))
}

// canonicalNumber spells a whole number in one way: 4, 4.0 and 4e0 make the same
// request.
func canonicalNumber(n json.Number) json.Number {
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return n
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}
