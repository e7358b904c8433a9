package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/web/door"
)

// rejected is a request of an operation that huma rejected: of all its findings, the first in
// alphabetical order.
func rejected(op *huma.Operation, status int, message string, errs []error) *problem {
	p := newProblem(status, apierror.CodeInvalidInput, message+".")
	var first *huma.ErrorDetail
	for _, err := range errs {
		if unread, ok := err.(*door.Refusal); ok {
			return describe(context.Background(), unread)
		}
		detail, ok := err.(*huma.ErrorDetail)
		if ok && (first == nil || detail.Location+detail.Message < first.Location+first.Message) {
			first = detail
		}
	}
	if first != nil {
		p.Field, p.Detail = sentence(op, first)
	}
	return p
}

// sentence returns the field of an operation that a finding is about, and describes the finding.
func sentence(op *huma.Operation, found *huma.ErrorDetail) (field, says string) {
	_, place, _ := strings.Cut(found.Location, ".") // body, query, header or path
	field = door.Clip(place)
	name := field
	if field == "" {
		name = "The request"
	}
	if missing, ok := inMessage(found.Message, validation.MsgExpectedRequiredProperty); ok {
		field = strings.TrimPrefix(field+"."+missing, ".")
		return field, field + " is missing."
	}
	switch {
	case found.Message == validation.MsgUnexpectedProperty:
		return field, fmt.Sprintf("There is no field %s here%s", name, orDescribed(unknownIn(place, bodySchema(op), op)))
	case found.Message == "unknown query parameter":
		return field, fmt.Sprintf("There is no parameter %s here%s", name, orDescribed(text.DidYouMean(place, queryNames(op))))
	case found.Message == "required query parameter is missing":
		return field, name + " is missing: give it a value."
	}
	if allowed, ok := inMessage(found.Message, validation.MsgExpectedOneOf); ok {
		values := strings.Split(allowed, ", ")
		given, _ := found.Value.(string)
		last := len(values) - 1
		return field, fmt.Sprintf("%s must be %s%s", name, strings.TrimPrefix(strings.Join(values[:last], ", ")+" or "+values[last], " or "),
			cmp.Or(text.DidYouMean(given, values), "."))
	}
	if path, _, ok := strings.Cut(found.Message, notTaken); ok && field == "" {
		return path, found.Message + "."
	}
	if digits, ok := found.Value.(json.Number); ok {
		if _, err := digits.Float64(); err != nil {
			return field, name + " is a number out of range."
		}
	}
	return field, fmt.Sprintf("%s is invalid: %s.", name, strings.TrimSuffix(found.Message, "."))
}

// inMessage returns the value in a message of huma's, if it was made with the format.
func inMessage(message, format string) (value string, ok bool) {
	before, after, _ := strings.Cut(format, "%s")
	value, ok = strings.CutPrefix(message, before)
	value, whole := strings.CutSuffix(value, after)
	return value, ok && whole
}

// orDescribed is a suggestion, or where all names are described.
func orDescribed(suggestion string) string {
	return cmp.Or(suggestion, ". "+openAPIPath+" describes all of them.")
}

// schemasKey is the metadata of an operation in which its document's schemas are.
const schemasKey = "schemas"

func bodySchema(op *huma.Operation) *huma.Schema {
	if op == nil || op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	return op.RequestBody.Content["application/json"].Schema
}

func queryNames(op *huma.Operation) (names []string) {
	if op == nil {
		return nil
	}
	for _, param := range op.Parameters {
		if param.In == "query" {
			names = append(names, param.Name)
		}
	}
	return names
}

// unknownIn suggests the property that an unknown one of a body was meant to be. The place is such
// as workflow.jobs[0].job.modle.
func unknownIn(place string, schema *huma.Schema, op *huma.Operation) string {
	if schema == nil {
		return ""
	}
	schemas, _ := op.Metadata[schemasKey].(huma.Registry)
	steps := strings.Split(place, ".")
	for i, step := range steps {
		for schema != nil && schema.Ref != "" {
			schema = schemas.SchemaFromRef(schema.Ref)
		}
		if schema == nil {
			return ""
		}
		if i == len(steps)-1 {
			return text.DidYouMean(step, slices.Sorted(maps.Keys(schema.Properties)))
		}
		name, index, _ := strings.Cut(step, "[")
		if schema = schema.Properties[name]; schema != nil && index != "" {
			schema = schema.Items
		}
	}
	return ""
}
