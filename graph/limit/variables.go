package limit

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/reelay/reelay/graph/scalar"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/samber/lo"
	"github.com/vektah/gqlparser/v2/ast"
)

// variables checks that the values of an operation's variables have the kinds that the
// schema declares. gqlgen accepts a number for a string and an enum value in any case,
// and does not say which number is too large. Validation reports every other fault.
type variables struct{ schema *ast.Schema }

// check returns INVALID_INPUT for the first value of the wrong kind.
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
		return nil // validation refuses null where the schema does not allow it
	}
	if of.Elem != nil {
		items, ok := value.([]any)
		if !ok {
			return v.value(of.Elem, value, path) // GraphQL reads a single value as a list of one
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
		return nil // validation reports the unknown type
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
			return wrongKind(path, scalar.MustBe("one of "+strings.Join(lo.Map(definition.EnumValues,
				func(v *ast.EnumValueDefinition, _ int) string { return v.Name }), ", ")))
		}
	case ast.Scalar:
		return builtIn(definition.Name, value, path)
	}
	return nil
}

// builtIn checks the scalars of the GraphQL specification. Package scalar checks the
// schema's own when it reads them.
func builtIn(name string, value any, path string) *apierror.Error {
	_, text := value.(string)
	wrong := false
	var wanted scalar.MustBe
	switch name {
	case "String":
		wrong, wanted = !text, scalar.MustBeString
	case "ID":
		number, _ := value.(json.Number)
		_, err := number.Int64()
		wrong, wanted = !text && err != nil, scalar.MustBeID
	case "Int":
		_, err := scalar.UnmarshalInt(value)
		wrong, wanted = err != nil, scalar.MustBeInt
	case "Float":
		_, err := scalar.UnmarshalFloat(value)
		wrong, wanted = err != nil, scalar.MustBeFloat
	}
	if !wrong {
		return nil
	}
	return wrongKind(path, wanted)
}

func wrongKind(path string, wanted scalar.MustBe) *apierror.Error {
	return wanted.Named(path, "The variable $"+path)
}
