package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/models"
)

// InputKind is the kind of file that a parameter names.
type InputKind string

const (
	InputImage InputKind = "image"
	InputVideo InputKind = "video"
	InputAudio InputKind = "audio"
	// InputDraft is a draft that can be continued. Only approvals take drafts.
	InputDraft InputKind = "draft"
)

var inputKinds = []InputKind{InputImage, InputVideo, InputAudio, InputDraft}

const (
	// ReferenceImage is a parameter that names an image in every model, annotated or not.
	ReferenceImage = "referenceImage"
	// inputKey annotates a property of a schema that names files: an [InputKind], or a list of
	// them.
	inputKey = "x-reelay-input"
	// MaxInputs is how many files the params of one job may name.
	MaxInputs = 100
)

// Input is a file that a job's params name.
type Input struct {
	// Name is the parameter, such as referenceImage; for an element of a list also its index,
	// such as clips.0.
	Name string
	// Kinds are the kinds that the model accepts.
	Kinds []InputKind
	// Reference is what the params say: the id of an artifact or of a job, or a URL.
	Reference string
}

// Field is the place of the input in a submission, such as params.clips.0.
func (in Input) Field() string { return "params." + in.Name }

// Accepts reports whether the model takes a file of this content type there.
func (in Input) Accepts(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, "/")
	return slices.Contains(in.Kinds, InputKind(kind))
}

// inputParam is a parameter that names files.
type inputParam struct {
	name   string
	quoted []byte // as it occurs in JSON
	kinds  []InputKind
}

// unannotated are the inputs of a model without annotations.
var unannotated = []inputParam{newInputParam(ReferenceImage, InputImage)}

func newInputParam(name string, kinds ...InputKind) inputParam {
	quoted, _ := json.Marshal(name) // a string always has a JSON form
	return inputParam{name, quoted, kinds}
}

// Inputs returns the files that valid params name, referenceImage first, then by name. Of a
// nil model it returns the reference image.
func (m *Model) Inputs(params json.RawMessage) (found []Input) {
	known := unannotated
	if m != nil && m.inputs != nil {
		known = m.inputs
	}
	var values map[string]json.RawMessage
	for _, p := range known {
		if !bytes.Contains(params, p.quoted) {
			continue
		}
		if values == nil {
			// The schema was checked before, so what does not decode is absent.
			_ = json.Unmarshal(params, &values)
		}
		var one string
		if json.Unmarshal(values[p.name], &one) == nil && one != "" {
			found = append(found, Input{p.name, p.kinds, one})
		}
		var many []string
		if json.Unmarshal(values[p.name], &many) == nil {
			for i, one := range many {
				found = append(found, Input{p.name + "." + strconv.Itoa(i), p.kinds, one})
			}
		}
	}
	return found
}

// property is the part of a schema that describes one parameter that names files.
type property struct {
	Kinds    json.RawMessage `json:"x-reelay-input"`
	Type     any             `json:"type"`
	MaxItems *int            `json:"maxItems"`
	Items    struct {
		Type any `json:"type"`
	} `json:"items"`
}

// kinds returns the kinds of an annotation, or what is wrong with it.
func (p property) kinds() ([]InputKind, error) {
	var list []InputKind
	if json.Unmarshal(p.Kinds, &list) != nil {
		list = []InputKind{""}
		_ = json.Unmarshal(p.Kinds, &list[0])
	}
	for i, kind := range list {
		if !slices.Contains(inputKinds, kind) || slices.Index(list, kind) != i {
			return nil, fmt.Errorf("%s is %s: it must be image, video or audio, or a list of them", inputKey, text.Clip(string(p.Kinds), 64))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s is an empty list: name image, video or audio", inputKey)
	}
	return list, nil
}

// shape returns what is wrong with the values that the property allows.
func (p property) shape() error {
	switch {
	case p.Type == "string":
		return nil
	case p.Type != "array" || p.Items.Type != "string":
		return fmt.Errorf("a parameter with %s must have the type string, or be an array whose items have the type string", inputKey)
	case p.MaxItems == nil || *p.MaxItems < 1 || *p.MaxItems > MaxInputs:
		return fmt.Errorf("an array with %s must have maxItems, from 1 to %d", inputKey, MaxInputs)
	}
	return nil
}

// findInputs computes the parameters that name files. It skips annotations that are wrong: new
// entries have none.
func (m *Model) findInputs() {
	m.inputs = slices.Clone(unannotated)
	for name, p := range m.annotated() {
		kinds, err := p.kinds()
		switch {
		case err != nil:
		case name == ReferenceImage:
			m.inputs[0].kinds = kinds
		default:
			m.inputs = append(m.inputs, newInputParam(name, kinds...))
		}
	}
	slices.SortFunc(m.inputs[1:], func(a, b inputParam) int { return cmp.Compare(a.name, b.name) })
}

// annotated returns the properties with an annotation, by name.
func (m *Model) annotated() map[string]property {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(m.Schema, &schema) // it was compiled
	found := map[string]property{}
	for name, raw := range schema.Properties {
		var p property
		if bytes.Contains(raw, []byte(`"`+inputKey+`"`)) && json.Unmarshal(raw, &p) == nil && p.Kinds != nil {
			found[name] = p
		}
	}
	return found
}

// ownKeys matches keys that look like annotations of Reelay. A mistyped one would have no effect.
var ownKeys = regexp.MustCompile(`"((?i:x-reelay)[^"\\]*)":`)

// checkInputs checks the annotations of parameters that name files.
func (s *Source) checkInputs(place string, m *Model) {
	annotated := m.annotated()
	for _, name := range slices.Sorted(maps.Keys(annotated)) {
		p := annotated[name]
		if _, err := p.kinds(); err != nil {
			s.problem(place, "the parameter %s: %s", text.Clip(name, MaxName), err)
		} else if err := p.shape(); err != nil {
			s.problem(place, "the parameter %s: %s", text.Clip(name, MaxName), err)
		} else if kinds, _ := p.kinds(); slices.Contains(kinds, InputDraft) && m.Type != models.TypeApproval {
			s.problem(place, "the parameter %s takes drafts: only %s can, since a worker renders nothing from them", text.Clip(name, MaxName),
				models.TypeApproval)
		}
	}
	for _, key := range ownKeys.FindAllSubmatch(m.Schema, -1) {
		if string(key[1]) != inputKey {
			s.problem(place, "params has the unknown annotation %s: the only one of Reelay is %s", text.Clip(string(key[1]), MaxName), inputKey)
		}
	}
	if n := bytes.Count(m.Schema, []byte(`"`+inputKey+`":`)); n > len(annotated) {
		s.problem(place, "%s is allowed in the properties of params themselves, not in parts of them", inputKey)
	}
}
