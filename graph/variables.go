package graph

import (
	"encoding/json"
	"strconv"

	"github.com/reelay/reelay/jobs/apierror"
	"github.com/vektah/gqlparser/v2/ast"
)

// variables hold the values of an operation's variables to the kinds that GraphQL
// gives them: gqlgen takes a number for a string, and the names of an enum's values
// in any case, and does not say what is too large. What else is wrong with them is left to validation.
type variables struct{ schema *ast.Schema }

// check returns INVALID_INPUT for the first value that is of another kind.
func (v variables) check(op *ast.OperationDefinition, values map[string]any) *apierror.Error {
	for _, variable := range op.VariableDefinitions {
		if refused := v.value(variable.Type, values[variable.Variable], variable.Variable); refused != nil {
			return refused
		}
	}
	return nil
}

func (v variables) value(of *ast.Type, value any, path string) *apierror.Error {
	if value == nil {
		return nil // where it may not be, validation says so
	}
	if of.Elem != nil {
		items, ok := value.([]any)
		if !ok {
			return v.value(of.Elem, value, path) // one stands for a list of one
		}
		for i, item := range items {
			if refused := v.value(of.Elem, item, path+"."+strconv.Itoa(i)); refused != nil {
				return refused
			}
		}
		return nil
	}
	definition := v.schema.Types[of.NamedType]
	if definition == nil {
		return nil // validation says so
	}
	switch definition.Kind {
	case ast.InputObject:
		fields, _ := value.(map[string]any)
		for _, field := range definition.Fields {
			if refused := v.value(field.Type, fields[field.Name], path+"."+field.Name); refused != nil {
				return refused
			}
		}
	case ast.Enum:
		if name, ok := value.(string); !ok || definition.EnumValues.ForName(name) == nil {
			return wrongKind(path, mustBe("one of the values of the enum "+definition.Name+", written as the schema does"))
		}
	case ast.Scalar:
		return scalar(definition.Name, value, path)
	}
	return nil
}

// scalar checks those that GraphQL has; the others are read by this package.
func scalar(name string, value any, path string) *apierror.Error {
	_, text := value.(string)
	wrong := false
	var wanted mustBe
	switch name {
	case "String":
		wrong, wanted = !text, mustBeString
	case "ID":
		number, _ := value.(json.Number)
		_, err := number.Int64()
		wrong, wanted = !text && err != nil, mustBeID
	case "Int":
		_, err := UnmarshalInt(value)
		wrong, wanted = err != nil, mustBeInt
	case "Float":
		_, err := UnmarshalFloat(value)
		wrong, wanted = err != nil, mustBeFloat
	}
	if !wrong {
		return nil
	}
	return wrongKind(path, wanted)
}

func wrongKind(path string, wanted mustBe) *apierror.Error {
	return wanted.named(path, "The variable $"+path)
}
