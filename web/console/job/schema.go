package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/reelay/reelay/internal/media"
	"github.com/reelay/reelay/internal/picture"
	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/reelay/reelay/web/ui"
)

// field is one parameter of a model in a form.
type field struct {
	Name        string // as errors name it: params.fps
	Label       string
	Type        string // of JSON Schema: number, integer, string or boolean; or list or json
	Description string
	Choices     []choice
	Default     string
	Min, Max    string
	// Files are the kinds of files that the parameter names: image, video or audio; nil for any other.
	Files []string
}

// placeholder describes the form of what is entered.
func (f field) placeholder() string {
	if f.Type == typeList {
		return "One on each line"
	}
	return "JSON"
}

// long reports whether the field takes several lines.
func (f field) long() bool { return f.Type == typeList || f.Type == typeJSON }

// text returns a parameter's value as a person enters it.
func (f field) text(value json.RawMessage) string {
	var list []string
	if f.Type == typeList && json.Unmarshal(value, &list) == nil {
		return strings.Join(list, "\n")
	}
	if f.Type == typeJSON {
		return string(value)
	}
	return plain(value)
}

// choice is one of the values of a parameter.
type choice struct {
	Text string
	JSON json.RawMessage
}

// words are the text of the choice, in small letters if it is a constant of the API.
func (c choice) words() string {
	if c.JSON == nil && constant.MatchString(c.Text) {
		return ui.Words(c.Text)
	}
	return c.Text
}

// step returns the attribute step of a number input.
func (f field) step() string {
	if f.Type == "integer" {
		return "1"
	}
	return "any"
}

// property is the part of a parameter's schema that a form uses. Numbers keep their text.
type property struct {
	Title       string `json:"title"`
	Type        string `json:"type"`
	Items       struct{ Type string }
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	Minimum     json.RawMessage   `json:"minimum"`
	Maximum     json.RawMessage   `json:"maximum"`
	Input       json.RawMessage   `json:"x-reelay-input"`
}

// A list has a text on each line. Any other parameter that is no single value is written as JSON.
const (
	typeList = "list"
	typeJSON = "json"
)

// single are the types of a single value.
var single = []string{"number", "integer", "string", "boolean"}

// formType returns the type of the parameter's field.
func (p property) formType() string {
	switch {
	case len(p.Enum) > 0, slices.Contains(single, p.Type):
		return p.Type
	case p.Type == "array" && p.Items.Type == "string":
		return typeList
	}
	return typeJSON
}

// schemaFields returns the fields for a model's schema, in the schema's order.
func schemaFields(schema json.RawMessage) ([]field, error) {
	var top struct{ Properties json.RawMessage }
	if err := json.Unmarshal(schema, &top); err != nil {
		return nil, fmt.Errorf("read the model's schema: %w", err)
	}
	if len(top.Properties) == 0 {
		return nil, nil
	}
	in := json.NewDecoder(bytes.NewReader(top.Properties))
	if _, err := in.Token(); err != nil {
		return nil, fmt.Errorf("read the model's parameters: %w", err)
	}
	var fields []field
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, fmt.Errorf("read the model's parameters: %w", err)
		}
		var p property
		if err := in.Decode(&p); err != nil {
			return nil, fmt.Errorf("read the parameter %v: %w", name, err)
		}
		fields = append(fields, p.field(fmt.Sprint(name)))
	}
	return fields, nil
}

func (p property) field(name string) field {
	f := field{
		Name: "params." + name, Label: cmp.Or(p.Title, label(name)), Type: p.formType(), Description: p.Description,
		Default: plain(p.Default), Min: plain(p.Minimum), Max: plain(p.Maximum),
	}
	f.Files = p.files(name)
	if p.Type == "boolean" && len(p.Enum) == 0 {
		p.Enum = []json.RawMessage{[]byte("true"), []byte("false")}
	}
	for _, value := range p.Enum {
		f.Choices = append(f.Choices, choice{plain(value), value})
	}
	return f
}

// files returns the kinds of files that the parameter names.
func (p property) files(name string) (kinds []string) {
	if json.Unmarshal(p.Input, &kinds) == nil {
		return kinds
	}
	var one string
	if json.Unmarshal(p.Input, &one) == nil && one != "" {
		return []string{one}
	}
	if name == catalogue.ReferenceImage {
		return []string{string(catalogue.InputImage)}
	}
	return nil
}

// accept returns the attribute accept of the field's file input.
func (f field) accept() string {
	var all []string
	for _, contentType := range slices.Concat(picture.ContentTypes, media.ContentTypes) {
		if kind, _, _ := strings.Cut(contentType, "/"); slices.Contains(f.Files, kind) {
			all = append(all, contentType)
		}
	}
	return strings.Join(all, ",")
}

// plain returns a JSON value as a person enters it.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// units are the units in which numbers are given, by how the names of their parameters end.
var units = []struct{ end, words string }{
	{"Seconds", "in seconds"}, {"Millis", "in milliseconds"}, {"Minutes", "in minutes"}, {"Hours", "in hours"}, {"Bytes", "in bytes"},
	{"Percent", "in percent"}, {"Usd", "in USD"},
}

// abbreviations are names of parameters that are not read as they are written.
var abbreviations = map[string]string{
	"fps": "Frames per second", "url": "URL", "cfg": "Guidance scale", "guidanceScale": "Guidance scale", "width": "Width in pixels",
	"height": "Height in pixels",
}

// label is the title of a parameter whose schema has none: "Duration in seconds" for durationSeconds.
func label(name string) string {
	if words, known := abbreviations[name]; known {
		return words
	}
	for _, unit := range units {
		if bare, ends := strings.CutSuffix(name, unit.end); ends && bare != "" {
			return shell.Apart(bare) + " " + unit.words
		}
	}
	return shell.Apart(name)
}

// shortHint is the length up to which a description is shown whole below its field.
const shortHint = 110

// hint is the first sentence of a long description, or what is before its first colon. rest is what
// follows, which a form shows on request.
func (f field) hint() (lead, rest string) {
	if len(f.Description) <= shortHint {
		return f.Description, ""
	}
	at := len(f.Description)
	for _, end := range []string{". ", ": ", "; "} {
		if i := strings.Index(f.Description, end); i > 0 {
			at = min(at, i)
		}
	}
	if at == len(f.Description) {
		return f.Description, ""
	}
	return f.Description[:at] + ".", strings.TrimSpace(f.Description[at+1:])
}

// readParams converts the entered values to a job's parameters. Empty fields get their
// defaults later. problems has a message for each invalid number, by field.
func readParams(fields []field, values url.Values) (json.RawMessage, map[string]string) {
	params, problems := map[string]json.RawMessage{}, map[string]string{}
	for _, f := range fields {
		text := strings.TrimSpace(values.Get(f.Name))
		if text == "" {
			continue
		}
		value, ok := f.read(text)
		if !ok {
			problems[f.Name] = f.Label + " must be " + f.wanted() + "."
			continue
		}
		params[strings.TrimPrefix(f.Name, "params.")] = value
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		panic(fmt.Sprintf("encode form: %v", err)) // each value is valid JSON already
	}
	return encoded, problems
}

func (f field) read(text string) (json.RawMessage, bool) {
	for _, choice := range f.Choices {
		if choice.Text == text {
			return choice.JSON, true
		}
	}
	if f.Type == "number" || f.Type == "integer" {
		// JSON has no NaN and no hexadecimal numbers.
		_, err := strconv.ParseFloat(text, 64)
		return json.RawMessage(text), err == nil && json.Valid([]byte(text))
	}
	if f.Type == typeJSON {
		return json.RawMessage(text), json.Valid([]byte(text))
	}
	var value any = text
	if f.Type == typeList {
		value = lines(text)
	}
	encoded, err := json.Marshal(value)
	return encoded, err == nil
}

// lines returns the lines of a text that are not empty.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// wanted describes a valid value.
func (f field) wanted() string {
	if f.Type == typeJSON {
		return `JSON, such as {"name": "value"} or "text"`
	}
	return "a number, such as " + cmp.Or(f.Default, "1")
}
