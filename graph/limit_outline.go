package graph

import (
	"fmt"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

const (
	// maxDepth is as deep as the introspection query of the usual tools.
	maxDepth = 15
	// maxFields bounds the fields of a query as they are written, and
	// maxExpanded those of its operations with the fragments written out.
	maxFields   = 500
	maxExpanded = 1000
	// maxAlike bounds the fields of one name, under whichever aliases, side by
	// side: of submitJob, for one.
	maxAlike         = 30
	maxIntrospection = 3
	maxOperationsIn  = 20
	maxFragments     = 20
	maxSpreads       = 40
	maxDirectives    = 50
	// maxName bounds the bytes of a name: validation compares one that it does not know with
	// each that it might have been.
	maxName = 128
)

// hasLongName reports whether a query that can be parsed has a name that is too long.
func hasLongName(query string) bool {
	tokens := lexer.New(&ast.Source{Input: query})
	for {
		token, err := tokens.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			return false
		}
		if token.Kind == lexer.Name && len(token.Value) > maxName {
			return true
		}
	}
}

// outline is the size of a query that nobody has validated. Each fragment is
// looked at once.
type outline struct {
	fields, spreads, directives, introspection, alike int // as they are written
	operations, fragments                             int
	extent                                            // of the largest operation

	byName map[string]*ast.FragmentDefinition
	known  map[string]extent
}

// extent is how deep a selection is and how many fields it selects, with its
// fragments written out.
type extent struct{ depth, expanded int }

// outlineOf measures a query. What is in a cycle of fragments counts once: the
// validator refuses it.
func outlineOf(doc *ast.QueryDocument) *outline {
	o := &outline{
		operations: len(doc.Operations), fragments: len(doc.Fragments),
		byName: map[string]*ast.FragmentDefinition{}, known: map[string]extent{},
	}
	for _, f := range doc.Fragments {
		o.byName[f.Name] = f
		o.directives += len(f.Directives)
	}
	for _, f := range doc.Fragments {
		o.fragment(f.Name)
	}
	for _, operation := range doc.Operations {
		o.directives += len(operation.Directives)
		for _, v := range operation.VariableDefinitions {
			o.directives += len(v.Directives)
		}
		size := o.of(operation.SelectionSet)
		o.depth, o.expanded = max(o.depth, size.depth), max(o.expanded, size.expanded)
	}
	return o
}

// excess says what a query has too much of, or nothing.
func (o *outline) excess() string {
	for _, part := range []struct {
		has, may int
		what     string
	}{
		{o.depth, maxDepth, "levels"},
		{o.fields, maxFields, "fields"},
		{o.expanded, maxExpanded, "fields, those of a fragment each time that it is used"},
		{o.alike, maxAlike, "fields of one name side by side, under other aliases, too"},
		{o.introspection, maxIntrospection, "fields of introspection (__schema, __type)"},
		{o.operations, maxOperationsIn, "operations"},
		{o.fragments, maxFragments, "fragments"},
		{o.spreads, maxSpreads, "uses of fragments"},
		{o.directives, maxDirectives, "directives"},
	} {
		if part.has > part.may {
			return fmt.Sprintf("A query may have %d %s: ask for less at once.", part.may, part.what)
		}
	}
	return ""
}

func (o *outline) of(selections ast.SelectionSet) extent {
	var total extent
	names := map[string]int{}
	for _, selection := range selections {
		var part extent
		switch s := selection.(type) {
		case *ast.Field:
			part = o.field(s)
			names[s.Name]++
			o.alike = max(o.alike, names[s.Name])
		case *ast.InlineFragment:
			o.directives += len(s.Directives)
			part = o.of(s.SelectionSet)
			part.depth++ // without a field in it, it could be as deep as the parser lets it
		case *ast.FragmentSpread:
			o.spreads++
			o.directives += len(s.Directives)
			part = o.fragment(s.Name)
		}
		total.depth = max(total.depth, part.depth)
		total.expanded = min(total.expanded+part.expanded, maxExpanded+1) // never overflows
	}
	return total
}

func (o *outline) field(f *ast.Field) extent {
	o.fields++
	o.directives += len(f.Directives)
	if f.Name != "__typename" && strings.HasPrefix(f.Name, "__") {
		o.introspection++
	}
	inner := o.of(f.SelectionSet)
	return extent{inner.depth + 1, min(inner.expanded+1, maxExpanded+1)}
}

func (o *outline) fragment(name string) extent {
	f := o.byName[name]
	if size, done := o.known[name]; done || f == nil {
		return size
	}
	o.known[name] = extent{} // where a cycle comes back
	size := o.of(f.SelectionSet)
	o.known[name] = size
	return size
}
