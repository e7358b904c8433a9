package limit

import (
	"fmt"
	"strings"

	"github.com/reelay/reelay/graph/failure"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

// valueRule is the rule of gqlparser whose errors give a value's position in the query,
// but not the argument that the value is for.
const valueRule = "ValuesOfCorrectType"

// NameArguments makes errors about values in a query's text name the arguments, as
// errors about variables do.
func NameArguments(query string, refused gqlerror.List) {
	var names map[position]string
	for _, e := range refused {
		if e.Rule != valueRule || len(e.Locations) == 0 {
			continue
		}
		if names == nil {
			names = argumentsOf(query)
		}
		field := names[position{e.Locations[0].Line, e.Locations[0].Column}]
		if field == "" {
			continue
		}
		field = failure.Clip(field, failure.MaxEcho)
		e.Message = fmt.Sprintf("The argument %s is not acceptable: %s", field, e.Message)
		if !strings.ContainsAny(e.Message[len(e.Message)-1:], ".?") {
			e.Message += "."
		}
		e.Extensions["field"] = field
	}
}

// position is a place in the text of a query.
type position struct{ line, column int }

// argumentsOf returns the name of the argument at the position of each value in a query.
func argumentsOf(query string) map[position]string {
	names := arguments{}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, MaxTokens)
	if err != nil {
		return names
	}
	for _, operation := range doc.Operations {
		for _, variable := range operation.VariableDefinitions {
			names.value(ast.Path{ast.PathName("$" + variable.Variable)}, variable.DefaultValue)
		}
		names.directives(operation.Directives)
		names.selections(operation.SelectionSet)
	}
	for _, fragment := range doc.Fragments {
		names.directives(fragment.Directives)
		names.selections(fragment.SelectionSet)
	}
	return names
}

type arguments map[position]string

func (n arguments) selections(set ast.SelectionSet) {
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			n.list(s.Arguments)
			n.directives(s.Directives)
			n.selections(s.SelectionSet)
		case *ast.InlineFragment:
			n.directives(s.Directives)
			n.selections(s.SelectionSet)
		case *ast.FragmentSpread:
			n.directives(s.Directives)
		}
	}
}

func (n arguments) directives(list ast.DirectiveList) {
	for _, directive := range list {
		n.list(directive.Arguments)
	}
}

func (n arguments) list(list ast.ArgumentList) {
	for _, a := range list {
		n.value(ast.Path{ast.PathName(a.Name)}, a.Value)
	}
}

func (n arguments) value(path ast.Path, v *ast.Value) {
	if v == nil {
		return
	}
	if v.Position != nil {
		n[position{v.Position.Line, v.Position.Column}] = failure.ArgumentName(path)
	}
	for i, child := range v.Children {
		step := ast.PathElement(ast.PathName(child.Name))
		if v.Kind == ast.ListValue {
			step = ast.PathIndex(i)
		}
		n.value(append(path[:len(path):len(path)], step), child.Value)
	}
}
