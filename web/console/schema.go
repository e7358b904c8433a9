package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// field is one parameter of a model as a form shows it.
type field struct {
	Name        string // as errors name it: params.fps
	Label       string
	Type        string // of JSON Schema: number, integer, string or boolean
	Description string
	Choices     []choice
	Default     string
	Min, Max    string
}

// choice is one of the values that a parameter may have.
type choice struct {
	Text string
	JSON json.RawMessage
}

// step is how finely a browser lets a number be chosen.
func (f field) step() string {
	if f.Type == "integer" {
		return "1"
	}
	return "any"
}

// property is what a form reads of a parameter's schema. Numbers stay as they
// are written.
type property struct {
	Type        string            `json:"type"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	Minimum     json.RawMessage   `json:"minimum"`
	Maximum     json.RawMessage   `json:"maximum"`
}

// formTypes are the types that a form has a field for. Other parameters keep
// their defaults.
var formTypes = []string{"number", "integer", "string", "boolean"}

// schemaFields makes a form of a model's schema, in the schema's own order.
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
		if len(p.Enum) > 0 || slices.Contains(formTypes, p.Type) {
			fields = append(fields, p.field(fmt.Sprint(name)))
		}
	}
	return fields, nil
}

func (p property) field(name string) field {
	f := field{
		Name: "params." + name, Label: label(name), Type: p.Type, Description: p.Description,
		Default: plain(p.Default), Min: plain(p.Minimum), Max: plain(p.Maximum),
	}
	if p.Type == "boolean" && len(p.Enum) == 0 {
		p.Enum = []json.RawMessage{[]byte("true"), []byte("false")}
	}
	for _, value := range p.Enum {
		f.Choices = append(f.Choices, choice{plain(value), value})
	}
	return f
}

// plain is a JSON value as a person enters it.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// label makes durationSeconds readable.
func label(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			b.WriteString(strings.ToUpper(string(r)))
		case r >= 'A' && r <= 'Z':
			b.WriteString(" " + strings.ToLower(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// readParams makes a job's parameters of what was entered. What was left empty
// gets its default later; what is no number is a problem of its field.
func readParams(fields []field, values url.Values) (json.RawMessage, map[string]string) {
	params, problems := map[string]json.RawMessage{}, map[string]string{}
	for _, f := range fields {
		text := strings.TrimSpace(values.Get(f.Name))
		if text == "" {
			continue
		}
		value, ok := f.read(text)
		if !ok {
			problems[f.Name] = f.Label + " must be a number, such as " + f.example() + "."
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
		// JSON knows no NaN and no hexadecimal numbers.
		_, err := strconv.ParseFloat(text, 64)
		return json.RawMessage(text), err == nil && json.Valid([]byte(text))
	}
	quoted, err := json.Marshal(text)
	return quoted, err == nil
}

func (f field) example() string {
	if f.Default != "" {
		return f.Default
	}
	return "1"
}
