package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/httpcall"
	"github.com/reelay/reelay/internal/outbound"
	"github.com/reelay/reelay/internal/strictjson"
	"github.com/reelay/reelay/internal/text"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// noFiles refuses what a schema refers to outside itself: the package would read any file of
// this machine.
type noFiles struct{}

func (noFiles) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s: put that part into the schema itself", text.Clip(text.Printable(url), maxText))
}

// compile prepares the model's schema.
func (m *Model) compile() error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Schema))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noFiles{})
	const name = "schema:///params" // the package completes a relative one with the folder of this process
	if err := compiler.AddResource(name, doc); err != nil {
		return err
	}
	if m.compiled, err = compiler.Compile(name); err != nil {
		return err
	}
	m.defaults = map[string]any{}
	for name, property := range m.compiled.Properties {
		if property.Default != nil {
			m.defaults[name] = *property.Default
		}
	}
	m.findInputs()
	m.findTimed()
	m.findGraphs()
	return nil
}

// schemaProblem describes why a schema does not compile.
func schemaProblem(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var failed *jsonschema.ValidationError
	if !errors.As(err, &invalid) || !errors.As(invalid.Err, &failed) {
		return text.Printable(err.Error())
	}
	for len(failed.Causes) > 0 {
		failed = failed.Causes[0]
	}
	return fmt.Sprintf("%s: %s", strings.Join(append([]string{"params"}, failed.InstanceLocation...), "."), bound(failed.ErrorKind))
}

// Takes reports whether the model's schema has a parameter of that name.
func (m *Model) Takes(name string) bool {
	_, known := m.compiled.Properties[name]
	return known
}

// takesNumber reports whether the parameter of that name may be a number.
func (m *Model) takesNumber(name string) bool {
	types := m.compiled.Properties[name].Types
	return types == nil || slices.ContainsFunc(types.ToStrings(), func(t string) bool { return t == "integer" || t == "number" })
}

// Params checks a job's parameters against the model's schema and returns them
// with the defaults filled in, as canonical JSON. It returns INVALID_INPUT with
// the parameter's name.
func (m *Model) Params(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		raw = json.RawMessage("{}")
	}
	value, err := strictjson.Read("params", raw, m.maxParams())
	if err != nil {
		return nil, err
	}
	if err := m.compiled.Validate(value); err != nil {
		return nil, m.schemaError(err)
	}
	params, ok := value.(map[string]any)
	if !ok {
		return nil, apierror.Invalid("params", "params must be a JSON object.")
	}
	for name, value := range params {
		if n, ok := value.(json.Number); ok {
			params[name] = strictjson.CanonicalNumber(n)
		}
	}
	for name, value := range m.defaults {
		if _, given := params[name]; !given {
			params[name] = value
		}
	}
	canonical, err := json.Marshal(params) // keys come out sorted
	if err != nil {
		return nil, fmt.Errorf("encode params: %w", err)
	}
	if err := m.checkCall(canonical); err != nil {
		return canonical, err
	}
	return canonical, m.checkGraph(canonical)
}

// Given returns params without those of these names that still have the model's default.
func (m *Model) Given(params json.RawMessage, names []string) json.RawMessage {
	var all map[string]json.RawMessage // which keeps the digits of numbers
	if m == nil || json.Unmarshal(params, &all) != nil {
		return params
	}
	for _, name := range names {
		usual, err := json.Marshal(m.defaults[name])
		var was, is any
		if err == nil && json.Unmarshal(usual, &was) == nil && json.Unmarshal(all[name], &is) == nil && reflect.DeepEqual(was, is) {
			delete(all, name)
		}
	}
	given, err := json.Marshal(all)
	if err != nil {
		return params
	}
	return given
}

// checkCall checks what a schema cannot express about the parameters of an HTTP request.
func (m *Model) checkCall(params json.RawMessage) error {
	var bad *httpcall.Problem
	if m.Runtime == httpcall.Runtime && errors.As(httpcall.Check(params, m.policy()), &bad) {
		return apierror.Invalid(bad.Field, "%s", text.Clip(bad.Error(), 500))
	}
	return nil
}

// policy says which URLs may be called. Without a catalogue's, calls of this machine are left to
// the worker.
func (m *Model) policy() outbound.Policy {
	if m.outbound == nil {
		return outbound.Policy{AllowLoopback: true}
	}
	return *m.outbound
}

const (
	maxParamsBytes = 16 << 10
	// maxGraphParams is maxParamsBytes for models that take a graph.
	maxGraphParams = 64 << 10
)

func (m *Model) maxParams() int {
	if m.graphs != nil {
		return maxGraphParams
	}
	return maxParamsBytes
}

// schemaError describes the first thing that the schema refuses, as INVALID_INPUT.
func (m *Model) schemaError(err error) error {
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return fmt.Errorf("validate params: %w", err)
	}
	for len(failed.Causes) > 0 {
		failed = likeliest(failed)
	}
	place := append([]string{"params"}, failed.InstanceLocation...)
	switch k := failed.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		unknown := slices.Min(k.Properties)
		return apierror.Invalid(fieldOf(append(place, unknown)), "%s", m.unknownParam(failed.InstanceLocation, unknown))
	case *kind.Required:
		place = append(place, slices.Min(k.Missing))
	}
	field := fieldOf(place)
	reason, hint := text.Clip(bound(failed.ErrorKind), 300), ". The list of models has its parameters."
	if strings.HasSuffix(reason, "?") { // it has a better hint
		hint = ""
	}
	return apierror.Invalid(field, "%s %s%s", field, reason, hint)
}

func fieldOf(place []string) string {
	return text.Clip(strings.Join(place, "."), strictjson.MaxField)
}

// unknownParam refuses a parameter that the schema does not have at a place, and names the one that
// was probably meant, or all that are there.
func (m *Model) unknownParam(place []string, name string) string {
	known := slices.Sorted(maps.Keys(schemaAt(m.compiled, place).Properties))
	says := fmt.Sprintf("Unknown parameter %q", fieldOf(append(slices.Clone(place), name)))
	switch near := text.DidYouMean(name, known); {
	case near != "":
		return says + near
	case len(known) == 0:
		return says + "."
	}
	of := "The model " + m.Name
	if len(place) > 0 {
		of = fieldOf(place)
	}
	return fmt.Sprintf("%s. %s has the parameters %s.", says, of, text.Clip(strings.Join(known, ", "), 500))
}

// schemaAt returns the part of a schema that describes the value at a place: keys, and indices of
// lists. It returns an empty schema where several schemas apply.
func schemaAt(s *jsonschema.Schema, place []string) *jsonschema.Schema {
	for _, step := range place {
		for s.Ref != nil {
			s = s.Ref
		}
		inner := s.Properties[step]
		if inner == nil {
			inner = s.Items2020
		}
		if inner == nil {
			return &jsonschema.Schema{}
		}
		s = inner
	}
	for s.Ref != nil {
		s = s.Ref
	}
	return s
}

// likeliest returns the cause of a refusal that the caller most likely meant to satisfy: of several
// alternatives the first that takes the type of the value, or one for all types that are taken.
func likeliest(failed *jsonschema.ValidationError) *jsonschema.ValidationError {
	switch failed.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
	default:
		return failed.Causes[0]
	}
	types := &kind.Type{}
	for _, cause := range failed.Causes {
		mismatch, is := cause.ErrorKind.(*kind.Type)
		if !is || len(cause.InstanceLocation) != len(failed.InstanceLocation) {
			return cause
		}
		types.Got, types.Want = mismatch.Got, append(types.Want, mismatch.Want...)
	}
	return &jsonschema.ValidationError{SchemaURL: failed.SchemaURL, InstanceLocation: failed.InstanceLocation, ErrorKind: types}
}

// bound describes what a schema refuses, as what follows the name of the field. It writes numbers in full: the schema
// package's own messages group digits and use exponents.
func bound(found jsonschema.ErrorKind) string {
	says := func(must string, got, want *big.Rat) string {
		return fmt.Sprintf("must be %s %s, not %s", must, digits(want), digits(got))
	}
	switch k := found.(type) {
	case *kind.Minimum:
		return says("at least", k.Got, k.Want)
	case *kind.Maximum:
		return says("at most", k.Got, k.Want)
	case *kind.ExclusiveMinimum:
		return says("more than", k.Got, k.Want)
	case *kind.ExclusiveMaximum:
		return says("less than", k.Got, k.Want)
	case *kind.MultipleOf:
		return says("a multiple of", k.Got, k.Want)
	case *kind.Type:
		if k.Got == "number" && slices.Equal(k.Want, []string{"integer"}) {
			return "must be a whole number, not one with a fraction"
		}
		return fmt.Sprintf("must be %s, not %s", typeWords(k.Want...), typeWords(k.Got))
	case *kind.Required:
		return "is required"
	case *kind.Enum:
		return oneOf(k)
	}
	return "is not valid: " + found.LocalizedString(english)
}

// oneOf describes values of which one is allowed.
func oneOf(k *kind.Enum) string {
	var words []string
	for _, value := range k.Want {
		word, ok := value.(string)
		if !ok {
			return "is not valid: " + k.LocalizedString(english)
		}
		words = append(words, word)
	}
	says := "must be " + strings.Join(words, ", ")
	if last := len(words) - 1; last > 0 {
		says = "must be " + strings.Join(words[:last], ", ") + " or " + words[last]
	}
	got, _ := k.Got.(string)
	return says + text.DidYouMean(got, words)
}

// typeWords returns types of JSON in words, such as "a number or a string".
func typeWords(types ...string) string {
	words := make([]string, len(types))
	for i, t := range types {
		switch t {
		case "null":
			words[i] = "null"
		case "boolean":
			words[i] = "true or false"
		case "integer":
			words[i] = "a whole number"
		default:
			words[i] = text.A(t)
		}
	}
	return strings.Join(words, " or ")
}

// digits writes a number without an exponent, unless it is very long or small.
func digits(n *big.Rat) string {
	f, _ := n.Float64()
	if size := math.Abs(f); size != 0 && (size >= 1e21 || size < 1e-6) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	if n.IsInt() {
		return n.Num().String()
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

var english = message.NewPrinter(language.English)
