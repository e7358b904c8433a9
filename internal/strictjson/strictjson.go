package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxJSONDepth is far more than anybody nests, and far less than PostgreSQL's
// stack holds.
const maxJSONDepth = 64

// Read decodes JSON from outside, with its numbers as they were written. It
// returns INVALID_INPUT for what PostgreSQL could not hold as jsonb, and names it.
func Read(field string, raw json.RawMessage, maxBytes int) (any, error) {
	if len(raw) > maxBytes {
		return nil, apierror.Invalid(field, "%s may take %d bytes of JSON; this takes %d.", field, maxBytes, len(raw))
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, apierror.Invalid(field, "%s is not JSON.", field)
	}
	return value, storable(value, maxJSONDepth).In(field)
}

// ReadStored is readJSON for what is kept as it came; nil stays nil.
func ReadStored(field string, raw json.RawMessage, maxBytes int) (json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	value, err := Read(field, raw, maxBytes)
	if err != nil {
		return nil, err
	}
	stored, err := json.Marshal(value)
	return stored, apierror.Wrap(err, "encode %s", field)
}

// Flaw is what is wrong with a part of a JSON value, and where: keys, and places in
// lists from 0, each after a dot.
type Flaw struct{ place, says string }

func Flawed(format string, args ...any) *Flaw { return &Flaw{says: fmt.Sprintf(format, args...)} }

// Of is the flaw as one of what that is a part of.
func (f *Flaw) Of(part string) *Flaw { return &Flaw{"." + part + f.place, f.says} }

// In is the error of the field in which the flaw was found, if one was.
func (f *Flaw) In(field string) error {
	if f == nil {
		return nil
	}
	field = text.Clip(field+f.place, MaxField)
	return apierror.Invalid(field, "%s %s", field, f.says)
}

// MaxField bounds the name of a field in which there are a caller's own words.
const MaxField = 128

func storable(value any, depth int) *Flaw {
	if depth == 0 {
		return Flawed("is deeper than %d levels.", maxJSONDepth)
	}
	switch v := value.(type) {
	case string:
		if holdsNUL(v) {
			return Flawed("holds a NUL character (U+0000): leave it out.")
		}
	case json.Number:
		if !plainNumber(v) {
			return Flawed("is the number %s, which is out of range.", text.Clip(v.String(), 32))
		}
	case []any:
		for i, item := range v {
			if f := storable(item, depth-1); f != nil {
				return f.Of(strconv.Itoa(i))
			}
		}
	case map[string]any:
		for name, item := range v {
			if holdsNUL(name) {
				return Flawed("has a key with a NUL character (U+0000) in it: leave it out.")
			}
			if f := storable(item, depth-1); f != nil {
				return f.Of(name)
			}
		}
	}
	return nil
}

// holdsNUL reports whether a text contains NUL, which PostgreSQL cannot store.
func holdsNUL(text string) bool { return strings.ContainsRune(text, 0) }

// plainNumber reports whether a float64 is near the number: it is not too large, and
// not rounded to 0.
func plainNumber(n json.Number) bool {
	f, err := strconv.ParseFloat(n.String(), 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return err == nil && !math.IsInf(f, 0) && (f != 0 || !strings.ContainsAny(mantissa, "123456789"))
}

// CanonicalNumber spells a whole number in one way: 4, 4.0 and 4e0 make the same
// request.
func CanonicalNumber(n json.Number) json.Number {
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return n
	}
	return json.Number(strconv.FormatInt(int64(f), 10))
}

// Canonical spells all whole numbers of a decoded value in one way: see [CanonicalNumber].
func Canonical(value any) any {
	switch v := value.(type) {
	case json.Number:
		return CanonicalNumber(v)
	case []any:
		for i := range v {
			v[i] = Canonical(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = Canonical(v[name])
		}
	}
	return value
}
