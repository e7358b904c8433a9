package catalogue

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/strictjson"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed *.json
var catalogueFiles embed.FS

// Model is one entry of the catalogue: a kind of work, its parameters, and what it
// costs.
type Model struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Description string   `json:"description"`
	GPUTypes    []string `json:"gpuTypes"`
	// RequiresVideo means that completeJob must name a video.
	RequiresVideo  bool `json:"requiresVideo"`
	RequiresPrompt bool `json:"requiresPrompt"`
	// TimeoutSeconds is the base of an attempt's running time; factors for
	// resolution and length go on top.
	TimeoutSeconds float64 `json:"timeoutSeconds"`
	// GPUSecondsPerSecond is how long one second of video takes to render.
	GPUSecondsPerSecond float64 `json:"gpuSecondsPerSecond"`
	// Schema is the JSON Schema of params, as published.
	Schema json.RawMessage `json:"-"`

	compiled *jsonschema.Schema
	defaults map[string]any
}

// Catalogue holds the current snapshot of the models. An operation reads the snapshot once,
// at its beginning, and hands it down, so that all of its decisions agree.
type Catalogue struct {
	current atomic.Pointer[Snapshot]
}

// Of returns a catalogue whose current snapshot is s.
func Of(s *Snapshot) *Catalogue {
	c := &Catalogue{}
	c.Replace(s)
	return c
}

// Current returns the current snapshot.
func (c *Catalogue) Current() *Snapshot { return c.current.Load() }

// Replace makes s the current snapshot. Operations that have begun keep theirs.
func (c *Catalogue) Replace(s *Snapshot) { c.current.Store(s) }

// Snapshot is the set of models that jobs may name, at one time. It is immutable, so that
// goroutines share it without a lock.
type Snapshot struct {
	models []*Model
}

// New returns a snapshot of these models, without checking them.
func New(models ...*Model) *Snapshot { return &Snapshot{models: models} }

// Load reads the models that come with Reelay, then those in each folder: a
// models.json that lists them, and for each a NAME.schema.json of its parameters.
// It returns an error if a file is missing or wrong, or a name is used twice.
func Load(folders ...fs.FS) (*Snapshot, error) {
	s := &Snapshot{}
	for _, folder := range append([]fs.FS{catalogueFiles}, folders...) {
		if err := s.load(folder); err != nil {
			return nil, fmt.Errorf("read the model catalogue: %w", err)
		}
	}
	return s, nil
}

func (s *Snapshot) load(folder fs.FS) error {
	index, err := fs.ReadFile(folder, "models.json")
	if err != nil {
		return err
	}
	var models []*Model
	if err := json.Unmarshal(index, &models); err != nil {
		return fmt.Errorf("models.json: %w", err)
	}
	for _, m := range models {
		if err := s.add(folder, m); err != nil {
			return fmt.Errorf("model %q: %w", m.Name, err)
		}
	}
	return nil
}

func (s *Snapshot) add(folder fs.FS, m *Model) error {
	switch {
	case m.Name == "" || m.Type == "":
		return errors.New("it needs a name and a type")
	case len(m.GPUTypes) == 0:
		return errors.New("gpuTypes is empty: name one, or any")
	case !(m.TimeoutSeconds > 0) || !(m.GPUSecondsPerSecond > 0):
		return errors.New("timeoutSeconds and gpuSecondsPerSecond must be positive")
	case slices.ContainsFunc(s.models, func(other *Model) bool { return other.Name == m.Name }):
		return errors.New("there is another model of that name")
	}
	schema, err := fs.ReadFile(folder, m.Name+".schema.json")
	if err != nil {
		return err
	}
	if err := m.compile(schema); err != nil {
		return err
	}
	s.models = append(s.models, m)
	return nil
}

func (m *Model) compile(schema []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(m.Name, doc); err != nil {
		return err
	}
	if m.compiled, err = compiler.Compile(m.Name); err != nil {
		return err
	}
	m.Schema, m.defaults = schema, map[string]any{}
	for name, property := range m.compiled.Properties {
		if property.Default != nil {
			m.defaults[name] = *property.Default
		}
	}
	return nil
}

// Models lists the models in the order in which they were loaded.
func (s *Snapshot) Models() []*Model { return s.models }

// Model returns the model of that name, or INVALID_INPUT.
func (s *Snapshot) Model(name string) (*Model, error) {
	if i := slices.IndexFunc(s.models, func(m *Model) bool { return m.Name == name }); i >= 0 {
		return s.models[i], nil
	}
	var names []string
	for _, m := range s.models {
		names = append(names, m.Name)
	}
	return nil, apierror.Invalid("model", "There is no model of that name; there is %s.", strings.Join(names, ", "))
}

// Known returns INVALID_INPUT unless each name is a model's, and there are at most
// MaxWorkerModels.
func (s *Snapshot) Known(field string, names []string) error {
	if len(names) > MaxWorkerModels {
		return apierror.Invalid(field, "%s may name %d models.", field, MaxWorkerModels)
	}
	for _, name := range names {
		if _, err := s.Model(name); err != nil {
			return apierror.Invalid(field, "%s", err)
		}
	}
	return nil
}

// Takes reports whether the model's schema has a parameter of that name.
func (m *Model) Takes(name string) bool {
	_, known := m.compiled.Properties[name]
	return known
}

// Params checks a job's parameters against the model's schema and returns them
// with the defaults filled in, as canonical JSON. It returns INVALID_INPUT with
// the parameter's name.
func (m *Model) Params(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		raw = json.RawMessage("{}")
	}
	value, err := strictjson.Read("params", raw, maxParamsBytes)
	if err != nil {
		return nil, err
	}
	if err := m.compiled.Validate(value); err != nil {
		return nil, schemaError(err)
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
	return canonical, nil
}

const maxParamsBytes = 16 << 10

// schemaError describes the first thing that the schema refuses, as INVALID_INPUT.
func schemaError(err error) error {
	var failed *jsonschema.ValidationError
	if !errors.As(err, &failed) {
		return fmt.Errorf("validate params: %w", err)
	}
	for len(failed.Causes) > 0 {
		failed = failed.Causes[0]
	}
	place := append([]string{"params"}, failed.InstanceLocation...)
	switch k := failed.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		place = append(place, slices.Min(k.Properties))
	case *kind.Required:
		place = append(place, slices.Min(k.Missing))
	}
	field := text.Clip(strings.Join(place, "."), strictjson.MaxField)
	reason := bound(failed.ErrorKind)
	return apierror.Invalid(field, "%s is not what this model takes: %s. The models query shows its schema.", field, text.Clip(reason, 300))
}

// bound describes what a schema refuses. It writes numbers in full: the schema
// package's own messages group digits and use exponents.
func bound(found jsonschema.ErrorKind) string {
	says := func(name string, got, want *big.Rat) string {
		return fmt.Sprintf("%s: got %s, want %s", name, digits(got), digits(want))
	}
	switch k := found.(type) {
	case *kind.Minimum:
		return says("minimum", k.Got, k.Want)
	case *kind.Maximum:
		return says("maximum", k.Got, k.Want)
	case *kind.ExclusiveMinimum:
		return says("exclusiveMinimum", k.Got, k.Want)
	case *kind.ExclusiveMaximum:
		return says("exclusiveMaximum", k.Got, k.Want)
	case *kind.MultipleOf:
		return says("multipleOf", k.Got, k.Want)
	}
	return found.LocalizedString(english)
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

// reckoning holds the parameters that determine the cost. A model without them counts
// as one second of video.
type reckoning struct {
	DurationSeconds *float64 `json:"durationSeconds"`
	Resolution      string   `json:"resolution"`
	Pace            *float64 `json:"pace"`
}

func ReadReckoning(params json.RawMessage) (seconds float64, r reckoning) {
	// The params match the schema: one that does not decode here is not set.
	_ = json.Unmarshal(params, &r)
	if r.DurationSeconds == nil {
		return 1, r
	}
	return *r.DurationSeconds, r
}

// EstimateGPUSeconds is the estimated work of a job. Accounts share a lane by it.
func (m *Model) EstimateGPUSeconds(params json.RawMessage) float64 {
	seconds, r := ReadReckoning(params)
	perSecond := m.GPUSecondsPerSecond
	if r.Pace != nil {
		perSecond = *r.Pace
	}
	return 1 + seconds*perSecond*resolutionFactor(r.Resolution)
}

// MaxWorkerModels is how many models one worker may name.
const MaxWorkerModels = 100

// MaxTimeout is the longest running time of one attempt, in seconds.
const MaxTimeout = 5 * 60 * 60

// Timeout is how many seconds one attempt may run: the base times 1.5 for 1080p
// or 2 for 4K, times 1.5 for more than ten seconds of video.
func (m *Model) Timeout(params json.RawMessage) int {
	seconds, r := ReadReckoning(params)
	t := m.TimeoutSeconds * resolutionFactor(r.Resolution)
	if seconds > 10 {
		t *= 1.5
	}
	if r.Pace != nil {
		t += seconds * *r.Pace
	}
	return int(math.Min(math.Ceil(t), MaxTimeout))
}

func resolutionFactor(resolution string) float64 {
	switch resolution {
	case "1080p":
		return 1.5
	case "4k", "2160p":
		return 2
	}
	return 1
}

var english = message.NewPrinter(language.English)
