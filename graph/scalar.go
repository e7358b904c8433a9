package graph

import (
	"encoding/json"
	"io"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/jobs/apierror"
)

// mustBe refuses a value by what it must be. The error's path, which gqlgen adds,
// names it.
type mustBe string

// What values must be.
const (
	mustBeString mustBe = "a string"
	mustBeID     mustBe = "an id, which is a string"
	mustBeInt    mustBe = "a whole number from -2147483648 to 2147483647"
	mustBeInt64  mustBe = "a whole number of at most 64 bits, as a number or a string"
	mustBeFloat  mustBe = "a number that a double can hold"
	mustBeJSON   mustBe = "a JSON value, whose numbers are finite"
	mustBeTime   mustBe = "a time as in 2026-01-31T12:00:00Z (RFC 3339)"
)

func (m mustBe) Error() string { return "This must be " + string(m) + "." }

// named is the error of a field, which the message calls by this name.
func (m mustBe) named(field, name string) *apierror.Error {
	return &apierror.Error{Code: apierror.CodeInvalidInput, Field: field, Message: name + " must be " + string(m) + "."}
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

// timeShape is what RFC 3339 allows and time.Parse does not hold to: no comma, and no
// offset of a whole day.
var timeShape = regexp.MustCompile(`^[^,]*(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// UnmarshalTime reads RFC 3339 with any offset.
func UnmarshalTime(v any) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	s, _ := v.(string)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !timeShape.MatchString(s) {
		return time.Time{}, mustBeTime
	}
	return t.UTC(), nil
}

// MarshalJSON writes stored JSON as it is.
func MarshalJSON(raw json.RawMessage) graphql.Marshaler {
	if len(raw) == 0 {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) { _, _ = w.Write(raw) })
}

// UnmarshalJSON reads any JSON value. Numbers in variables stay exactly as they
// were written.
func UnmarshalJSON(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, mustBeJSON
	}
	return raw, nil
}

// MarshalInt writes a GraphQL Int.
func MarshalInt(i int) graphql.Marshaler { return graphql.MarshalInt(i) }

// UnmarshalInt reads a GraphQL Int, which has 32 bits.
func UnmarshalInt(v any) (int, error) {
	if _, text := v.(string); !text {
		if i, err := graphql.UnmarshalInt64(v); err == nil && i >= math.MinInt32 && i <= math.MaxInt32 {
			return int(i), nil
		}
	}
	return 0, mustBeInt
}

// MarshalFloat writes a GraphQL Float, and null for what is none: JSON has no word for it.
func MarshalFloat(f float64) graphql.Marshaler {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return graphql.Null
	}
	return graphql.MarshalFloat(f)
}

// UnmarshalFloat reads a GraphQL Float, which is finite.
func UnmarshalFloat(v any) (float64, error) {
	if _, text := v.(string); !text {
		if f, err := graphql.UnmarshalFloat(v); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, nil
		}
	}
	return 0, mustBeFloat
}

// maxExact is where doubles, and so JavaScript's numbers, stop being exact.
const maxExact = 1 << 53

// MarshalInt64 writes a number below 2^53 and a string above.
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
		return 0, mustBeInt64
	}
	return i, nil
}
