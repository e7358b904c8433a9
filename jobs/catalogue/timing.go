package catalogue

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
)

const (
	// maxTimed is how many parameters an entry may name, and maxClasses how many classes their
	// values may make.
	maxTimed   = 4
	maxClasses = 5000
	// exactValues is up to how many whole numbers each is a class of its own.
	exactValues = 16
	// leastPower and mostPower bound the classes of other numbers: powers of two.
	leastPower, mostPower = -4, 24
	// mostProportion bounds how far one job's estimate is from that of the defaults.
	mostProportion = 1e4
	// maxClassText bounds a text in a class, in bytes.
	maxClassText = 32
)

// timed is a parameter on which the time of a render depends.
type timed struct {
	path string // of gjson
	// exact means that each value is a class; otherwise powers of two are.
	exact bool
	// reference is the default of a number to which the first estimate is in proportion, or 0.
	reference float64
}

// priced are the parameters that the first estimate takes into account by rules of its own.
var priced = []string{"durationSeconds", "resolution", "pace"}

// findTimed prepares the named parameters. The schema is compiled.
func (m *Model) findTimed() {
	m.timed = nil
	for _, name := range m.TimeDependsOn {
		property := m.compiled.Properties[name]
		if property == nil {
			continue // reported as such
		}
		property = schemaAt(m.compiled, []string{name})
		t := timed{path: gjson.Escape(name), exact: property.Enum != nil || !numeric(property)}
		if least, most, bounded := wholeBounds(property); bounded && most-least < exactValues {
			t.exact = true
		}
		if numeric(property) && !slices.Contains(priced, name) {
			t.reference, _ = number(m.defaults[name])
		}
		m.timed = append(m.timed, t)
	}
}

// numeric reports whether a property is a number.
func numeric(s *jsonschema.Schema) bool {
	if s.Enum != nil {
		return !slices.ContainsFunc(s.Enum.Values, func(v any) bool { _, ok := number(v); return !ok })
	}
	return s.Types != nil && !slices.ContainsFunc(s.Types.ToStrings(), func(t string) bool { return t != "integer" && t != "number" })
}

// number returns a value of JSON as a number.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// wholeBounds returns the least and the highest whole number that a property allows, rounded up.
func wholeBounds(s *jsonschema.Schema) (least, most float64, bounded bool) {
	from, to := s.Minimum, s.Maximum
	if from == nil {
		from = s.ExclusiveMinimum
	}
	if to == nil {
		to = s.ExclusiveMaximum
	}
	if from == nil || to == nil {
		return 0, 0, false
	}
	return roundedUp(from), roundedUp(to), true
}

func roundedUp(n *big.Rat) float64 {
	f, _ := n.Float64()
	return math.Ceil(f)
}

// classes returns how many classes a property has.
func (t timed) classes(s *jsonschema.Schema) float64 {
	least, most, bounded := wholeBounds(s)
	switch {
	case s.Enum != nil:
		return float64(len(s.Enum.Values)) + 1 // none is given
	case !numeric(s):
		return 3 // true, false, none
	case t.exact:
		return most - least + 2
	case !bounded:
		return mostPower - leastPower + 3
	}
	return power(most) - power(least) + 2
}

// power returns the power of two of a number's class, and the least one below it for 0 and less.
func power(n float64) float64 {
	if n <= 0 {
		return leastPower - 1
	}
	return min(max(math.Floor(math.Log2(n)), leastPower), mostPower)
}

// class returns the class of a value.
func (t timed) class(value gjson.Result) string {
	switch value.Type {
	case gjson.Null: // or none
		return "-"
	case gjson.String:
		return classText(value.Str)
	case gjson.Number:
		return t.numberClass(value.Num)
	case gjson.True:
		return "true"
	case gjson.False:
		return "false"
	}
	return "?"
}

func (t timed) numberClass(n float64) string {
	switch {
	case t.exact:
		n = math.Ceil(n)
	case n <= 0:
		n = 0
	default:
		n = math.Exp2(power(n))
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

// classText makes a text fit into a class.
func classText(s string) string {
	return text.Clip(strings.ReplaceAll(text.Printable(s), ",", "_"), maxClassText)
}

// TimeClass returns the class of valid params by the time that a render takes: that of each
// parameter that TimeDependsOn names, in its order, separated by commas. Without names these are the
// resolution and the length, rounded up to seconds. It is "" if the params have neither.
func (m *Model) TimeClass(params json.RawMessage) string {
	if len(m.timed) == 0 {
		_, r := ReadReckoning(params)
		switch {
		case r.DurationSeconds != nil:
			return classText(r.Resolution) + "," + timed{exact: true}.numberClass(*r.DurationSeconds)
		case r.Resolution != "":
			return classText(r.Resolution) + ",-"
		}
		return ""
	}
	parts := make([]string, len(m.timed))
	for i, t := range m.timed {
		parts[i] = t.class(gjson.GetBytes(params, t.path))
	}
	return strings.Join(parts, ",")
}

// proportion returns how much longer a render with these params takes than with the defaults, as far
// as the named parameters are numbers.
func (m *Model) proportion(params json.RawMessage) float64 {
	p := 1.0
	for _, t := range m.timed {
		if t.reference > 0 {
			if given := gjson.GetBytes(params, t.path); given.Type == gjson.Number {
				p *= max(given.Num, 0) / t.reference
			}
		}
	}
	return min(p, mostProportion)
}

// checkTimed checks the parameters that TimeDependsOn names. The schema has been checked before.
func (s *Source) checkTimed(place string, m *Model) {
	place += ".timeDependsOn"
	if len(m.TimeDependsOn) > maxTimed {
		s.problem(place, "timeDependsOn has %d parameters: name the %d at most on which the time depends most", len(m.TimeDependsOn), maxTimed)
		return
	}
	if m.compiled == nil {
		return
	}
	classes, named := 1.0, 0
	for i, name := range m.TimeDependsOn {
		at := fmt.Sprintf("%s[%d]", place, i)
		if slices.Index(m.TimeDependsOn, name) != i {
			s.problem(at, "timeDependsOn names %s twice", text.Clip(name, MaxName))
			return
		}
		if !m.Takes(name) {
			s.problem(at, "timeDependsOn names %q: params has no such property", text.Clip(name, MaxName))
			continue
		}
		property, t := schemaAt(m.compiled, []string{name}), m.timed[named]
		named++ // timed has the names that params has
		boolean := property.Types != nil && slices.Equal(property.Types.ToStrings(), []string{"boolean"})
		switch n, _ := number(m.defaults[name]); {
		case property.Enum == nil && !numeric(property) && !boolean:
			s.problem(at, "timeDependsOn names %s: it must be a number, true or false, or one of the values of an enum", name)
			continue
		case numeric(property) && n <= 0 && !slices.Contains(priced, name):
			s.problem(at, "timeDependsOn names %s, a number without a default over 0: gpuSecondsPerSecond is for the default, "+
				"and other values are in proportion", name)
			continue
		}
		classes *= t.classes(property)
	}
	if classes > maxClasses {
		s.problem(place, "the parameters of timeDependsOn have about %.0f classes of values: at most %d are allowed; "+
			"name fewer, or bound their values", classes, maxClasses)
	}
}
