// Package scalar reads and writes the scalar types of the schema.
package scalar

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
)

// MustBe is the error of a value of the wrong kind. Its text says what the value must
// be. The path that gqlgen adds to the error names the value.
type MustBe string

// What the values of each scalar must be.
const (
	MustBeString MustBe = "a string"
	MustBeID     MustBe = "an id, which is a string"
	MustBeInt    MustBe = "a whole number from -2147483648 to 2147483647"
	MustBeInt64  MustBe = "a whole number of at most 64 bits, as a number or a string"
	MustBeFloat  MustBe = "a number that a double can hold"
	MustBeJSON   MustBe = "a JSON value, whose numbers are finite"
	MustBeTime   MustBe = "a time as in 2026-01-31T12:00:00Z (RFC 3339)"
)

// Error implements error.
func (m MustBe) Error() string { return "This must be " + string(m) + "." }

// Named returns the error INVALID_INPUT of a field. The message calls the value name.
func (m MustBe) Named(field, name string) *apierror.Error {
	return apierror.Invalid(field, "%s must be %s.", name, string(m))
}

// MarshalTime writes a time as RFC 3339 in UTC, and the zero time as null.
func MarshalTime(t time.Time) graphql.Marshaler {
	if t.IsZero() {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) {
		_, _ = io.WriteString(w, t.UTC().Format(`"`+time.RFC3339Nano+`"`))
	})
}

// UnmarshalTime reads RFC 3339 with any offset.
func UnmarshalTime(v any) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	s, _ := v.(string)
	t, err := text.ParseTime(s)
	if err != nil {
		return time.Time{}, MustBeTime
	}
	return t, nil
}

// MarshalJSON writes stored JSON unchanged.
func MarshalJSON(raw json.RawMessage) graphql.Marshaler {
	if len(raw) == 0 {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) { _, _ = w.Write(raw) })
}

// UnmarshalJSON reads any JSON value. Numbers in variables keep the exact digits that
// the caller sent.
func UnmarshalJSON(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, MustBeJSON
	}
	return raw, nil
}

// MarshalInt writes a GraphQL Int.
func MarshalInt(i int) graphql.Marshaler { return graphql.MarshalInt(i) }

// UnmarshalInt reads a GraphQL Int. The value must fit 32 bits.
func UnmarshalInt(v any) (int, error) {
	if _, text := v.(string); !text {
		if i, err := graphql.UnmarshalInt64(v); err == nil && i >= math.MinInt32 && i <= math.MaxInt32 {
			return int(i), nil
		}
	}
	return 0, MustBeInt
}

// MarshalFloat writes a GraphQL Float. It writes infinities and NaN as null, because JSON
// cannot express them.
func MarshalFloat(f float64) graphql.Marshaler {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return graphql.Null
	}
	return graphql.MarshalFloat(f)
}

// UnmarshalFloat reads a GraphQL Float. The value must be finite.
func UnmarshalFloat(v any) (float64, error) {
	if _, text := v.(string); !text {
		if f, err := graphql.UnmarshalFloat(v); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, nil
		}
	}
	return 0, MustBeFloat
}

// maxExact is the first integer at which doubles, and so JavaScript's numbers, are no longer exact.
const maxExact = 1 << 53

// MarshalInt64 writes a number if its magnitude is below 2^53, and a string otherwise.
func MarshalInt64(i int64) graphql.Marshaler {
	text := strconv.FormatInt(i, 10)
	if i >= maxExact || i <= -maxExact {
		text = `"` + text + `"`
	}
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, text) })
}

// UnmarshalInt64 reads a number or a string.
func UnmarshalInt64(v any) (int64, error) {
	i, err := graphql.UnmarshalInt64(v)
	if err != nil {
		return 0, MustBeInt64
	}
	return i, nil
}
