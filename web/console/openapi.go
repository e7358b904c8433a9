package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// apiDocs is the view of the page about the REST API, which is made from its
// OpenAPI document.
type apiDocs struct {
	Description string
	Sections    []apiSection
	Types       []apiType
}

// apiSection is the operations on one kind of thing.
type apiSection struct {
	Name       string
	Operations []apiOperation
}

type apiOperation struct {
	ID, Method, Path     string
	Summary, Description string
	Parameters           []apiField
	// Body is the type of the request's body, "" if it has none.
	Body      string
	Example   string
	Responses []apiResponse
	// Errors are the statuses of problem documents.
	Errors []string
}

type apiResponse struct {
	Status, Description string
	Content             []apiContent
}

type apiContent struct {
	Media string
	Type  apiSchema
}

// apiField is a parameter, or a property of a type.
type apiField struct {
	Name     string
	In       string // of a parameter: path, query or header
	Required bool
	Schema   apiSchema
	Text     string
}

type apiType struct {
	Name   string
	Fields []apiField
}

// apiSections are the page's sections, in their order, by what their paths begin
// with. Paths of none of these come last.
var apiSections = []struct{ prefix, name string }{
	{"/api/video-generations", "Videos"}, {"/api/v1/jobs", "Jobs of any kind"}, {"/api/v1/models", "Models"}, {"/api/v1/queue", "Queue"}, {"", "Other"},
}

// openAPI is what the page reads of a document.
type openAPI struct {
	Info struct {
		Description string
	}
	Paths      map[string]map[string]openAPIOperation
	Components struct {
		Schemas map[string]apiSchema
	}
}

type openAPIOperation struct {
	OperationID, Summary, Description string
	Parameters                        []struct {
		Name, In, Description string
		Required              bool
		Schema                apiSchema
	}
	RequestBody *struct {
		Content map[string]openAPIMedia
	}
	Responses map[string]struct {
		Description string
		Content     map[string]openAPIMedia
	}
}

type openAPIMedia struct {
	Schema   apiSchema
	Examples map[string]struct {
		Value json.RawMessage
	}
}

// apiSchema is what the page shows of a JSON Schema.
type apiSchema struct {
	Ref              string `json:"$ref"`
	Type             apiTypes
	Description      string
	Format           string
	Enum             []any
	Minimum, Maximum *float64
	Default          any
	Items            *apiSchema
	Properties       map[string]apiSchema
	Required         []string
}

// apiTypes is the type of a schema: one, or several.
type apiTypes []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *apiTypes) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = apiTypes{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// name is the type that a schema refers to, "" if it is described in place.
func (s apiSchema) name() string {
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

// limits says what a value must be beside its type.
func (s apiSchema) limits() string {
	var all []string
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		all = append(all, fmt.Sprintf("%g to %g", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		all = append(all, fmt.Sprintf("at least %g", *s.Minimum))
	case s.Maximum != nil:
		all = append(all, fmt.Sprintf("at most %g", *s.Maximum))
	}
	if s.Default != nil {
		all = append(all, fmt.Sprintf("default %v", s.Default))
	}
	return strings.Join(all, ", ")
}

// values are those that a schema allows.
func (s apiSchema) values() string {
	var all []string
	for _, value := range s.Enum {
		all = append(all, fmt.Sprint(value))
	}
	return "One of " + strings.Join(all, ", ") + "."
}

// words is a type in words.
func (s apiSchema) words() string {
	text := strings.Join(s.Type, " or ")
	if s.Format == "date-time" || s.Format == "uri" {
		text = strings.Replace(text, "string", s.Format, 1)
	}
	return text
}

// readOpenAPI makes the page's view. The document is generated from this code, so
// that one that cannot be read is a mistake in it.
func readOpenAPI(document []byte) *apiDocs {
	if len(document) == 0 {
		return nil
	}
	var read openAPI
	if err := json.Unmarshal(document, &read); err != nil {
		panic(fmt.Errorf("read the OpenAPI document: %w", err))
	}
	docs := &apiDocs{Description: strings.ReplaceAll(read.Info.Description, "`", "")} // it is CommonMark
	found := make([]apiSection, len(apiSections))
	for _, path := range slices.Sorted(maps.Keys(read.Paths)) {
		i := slices.IndexFunc(apiSections, func(s struct{ prefix, name string }) bool { return strings.HasPrefix(path, s.prefix) })
		found[i].Name = apiSections[i].name
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if op, ok := read.Paths[path][method]; ok {
				found[i].Operations = append(found[i].Operations, op.view(strings.ToUpper(method), path))
			}
		}
	}
	docs.Sections = slices.DeleteFunc(found, func(s apiSection) bool { return len(s.Operations) == 0 })
	for _, name := range slices.Sorted(maps.Keys(read.Components.Schemas)) {
		docs.Types = append(docs.Types, apiType{name, read.Components.Schemas[name].fields()})
	}
	return docs
}

func (op openAPIOperation) view(method, path string) apiOperation {
	v := apiOperation{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		v.Parameters = append(v.Parameters, apiField{p.Name, p.In, p.Required, p.Schema, p.Description})
	}
	if op.RequestBody != nil {
		media := op.RequestBody.Content["application/json"]
		v.Body = media.Schema.name()
		for _, example := range media.Examples {
			v.Example = indented(example.Value)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if status >= "400" {
			v.Errors = append(v.Errors, status)
			continue
		}
		response := apiResponse{Status: status, Description: op.Responses[status].Description}
		for _, media := range slices.Sorted(maps.Keys(op.Responses[status].Content)) {
			response.Content = append(response.Content, apiContent{media, op.Responses[status].Content[media].Schema})
		}
		v.Responses = append(v.Responses, response)
	}
	return v
}

// indented is a JSON document with one field in a line.
func indented(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "  ", "  "); err != nil {
		return string(raw)
	}
	return out.String()
}

// fields are a type's properties: the required ones in the document's order, then
// the others.
func (s apiSchema) fields() []apiField {
	names := slices.Clone(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) {
			names = append(names, name)
		}
	}
	var all []apiField
	for i, name := range names {
		property := s.Properties[name]
		all = append(all, apiField{Name: name, Required: i < len(s.Required), Schema: property, Text: property.Description})
	}
	return all
}

// curl is a call of the operation, for a shell.
func (op apiOperation) curl() string {
	call := `curl -sS "$API` + strings.ReplaceAll(op.Path, "{id}", "$ID") + `" -H "Authorization: Bearer $KEY"`
	switch {
	case op.Example != "":
		call += " \\\n  -H 'Content-Type: application/json' -d '" + op.Example + "'"
	case op.Method != http.MethodGet:
		call = strings.Replace(call, "curl -sS", "curl -sS -X "+op.Method, 1)
	}
	return call
}
