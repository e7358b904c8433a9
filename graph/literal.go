package graph

import (
	"fmt"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

// aboutValues is gqlparser's rule whose errors tell where a value stands in the
// query, and not which argument it is for.
const aboutValues = "ValuesOfCorrectType"

// nameArguments has errors about values in a query's text name what they are for,
// as those about variables do.
func nameArguments(query string, refused gqlerror.List) {
	var names map[spot]string
	for _, e := range refused {
		if e.Rule != aboutValues || len(e.Locations) == 0 {
			continue
		}
		if names == nil {
			names = argumentsOf(query)
		}
		field := names[spot{e.Locations[0].Line, e.Locations[0].Column}]
		if field == "" {
			continue
		}
		field = clip(field, maxShown)
		e.Message = fmt.Sprintf("The argument %s is not acceptable: %s", field, e.Message)
		if !strings.ContainsAny(e.Message[len(e.Message)-1:], ".?") {
			e.Message += "."
		}
		e.Extensions["field"] = field
	}
}

// spot is where something stands in a query.
type spot struct{ line, column int }

// argumentsOf names the argument that each value in a query is for.
func argumentsOf(query string) map[spot]string {
	names := arguments{}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, maxTokens)
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

type arguments map[spot]string

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
		n[spot{v.Position.Line, v.Position.Column}] = withoutInput(path)
	}
	for i, child := range v.Children {
		step := ast.PathElement(ast.PathName(child.Name))
		if v.Kind == ast.ListValue {
			step = ast.PathIndex(i)
		}
		n.value(append(path[:len(path):len(path)], step), child.Value)
	}
}
