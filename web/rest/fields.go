package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs/catalogue"
)

// object is a JSON object that is passed on unchanged.
type object json.RawMessage

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("null"), nil
	}
	return o, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(raw []byte) error {
	if *o = nil; !bytes.Equal(raw, []byte("null")) {
		*o = bytes.Clone(raw)
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Nullable: true}
}

// number is the text of a JSON number, so that it is not rounded.
type number string

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	*n = number(raw)
	return nil
}

// Schema implements huma.SchemaProvider.
func (number) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Nullable: true}
}

// field is a field of the request that is a parameter of the model.
type field struct {
	name  string // in the request
	param string
	value any // a nil pointer if it was not sent
}

// merge adds the fields to params. It returns INVALID_INPUT for a parameter that the
// model does not have, or that was sent twice.
func merge(model *catalogue.Model, params object, fields []field) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(or(params, "{}"), &all); err != nil || all == nil {
		all = map[string]json.RawMessage{}
	}
	for _, f := range fields {
		raw, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		if string(raw) == "null" {
			continue
		}
		if !model.Takes(f.param) {
			return nil, apierror.Invalid(f.name, "The model %s has no parameter %s.", model.Name, f.name)
		}
		if _, twice := all[f.param]; twice {
			return nil, apierror.Invalid(f.name, "%s and params.%s are the same parameter: send one of them.", f.name, f.param)
		}
		all[f.param] = raw
	}
	return json.Marshal(all)
}

func or(o object, otherwise string) []byte {
	if len(o) == 0 {
		return []byte(otherwise)
	}
	return o
}

// renamed replaces the domain's name of a field in an error with the request's. The keys
// of names are the domain's.
func renamed(err error, names map[string]string) error {
	var e *apierror.Error
	if !errors.As(err, &e) {
		return err
	}
	field, name := e.Field, ""
	for ok := false; !ok; {
		if name, ok = names[field]; !ok {
			// A field of metadata is metadata.a; one of the items of a list is list.0.
			dot := strings.LastIndexByte(field, '.')
			if dot < 0 {
				return err
			}
			field = field[:dot]
		}
	}
	name += e.Field[len(field):]
	shown := *e
	shown.Field = name
	// Only a name that cannot be an ordinary word.
	if strings.ContainsAny(e.Field, "._ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		shown.Message = strings.ReplaceAll(e.Message, e.Field, name)
	}
	return &shown
}

// given is a text of a request, which the domain would take for none if it is empty.
type given struct {
	field string
	text  *string
}

// notEmpty refuses texts that were sent, but are empty.
func notEmpty(all ...given) error {
	for _, one := range all {
		if one.text != nil && *one.text == "" {
			return apierror.Invalid(one.field, "%s is empty: give it a value, or leave it out.", one.field)
		}
	}
	return nil
}

// readNames reads names separated by commas, in upper or lower case.
func readNames[T ~string](field, given string, known []T) (names []T, err error) {
	if given == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(given, ",") {
		name, err := readName(field, strings.TrimSpace(part), known)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func readName[T ~string](field, given string, known []T) (T, error) {
	for _, name := range known {
		if strings.EqualFold(given, string(name)) {
			return name, nil
		}
	}
	var all []string
	for _, name := range known {
		all = append(all, strings.ToLower(string(name)))
	}
	last := len(all) - 1
	near := cmp.Or(text.DidYouMean(given, all), ".")
	return "", apierror.Invalid(field, "%s must be %s or %s%s", field, strings.Join(all[:last], ", "), all[last], near)
}
