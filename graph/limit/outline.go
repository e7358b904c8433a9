package limit

import (
	"fmt"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/validator"
)

const (
	// maxDepth is the depth of the introspection query that common tools send.
	maxDepth = 15
	// maxFields bounds the fields in the text of a query. maxExpanded bounds the fields
	// of its operations after each spread is replaced by its fragment.
	maxFields   = 500
	maxExpanded = 1000
	// maxAlike bounds the fields of one name in one selection, whatever their aliases:
	// for example, calls of submitJob.
	maxAlike         = 30
	maxIntrospection = 3
	maxOperationsIn  = 20
	maxFragments     = 20
	maxSpreads       = 40
	maxDirectives    = 50
	// maxName bounds the bytes of a name, and of a string in the place of an enum value:
	// validation compares an unknown name with every known one to make a suggestion.
	maxName = 128
)

// excessOf says what a query has too much of, or returns "".
func excessOf(schema *ast.Schema, doc *ast.QueryDocument, text string) string {
	if excess := outlineOf(doc).excess(); excess != "" {
		return excess
	}
	if hasLongName(text) || hasLongEnum(schema, doc) {
		return fmt.Sprintf("A name in a query may have %d bytes: choose a shorter one.", maxName)
	}
	return ""
}

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

// hasLongEnum reports whether a string that is too long is in the place of an enum value.
func hasLongEnum(schema *ast.Schema, doc *ast.QueryDocument) (found bool) {
	var events validator.Events
	events.OnValue(func(_ *validator.Walker, v *ast.Value) {
		found = found || len(v.Raw) > maxName && v.Definition != nil && v.Definition.Kind == ast.Enum
	})
	validator.Walk(schema, doc, &events)
	return found
}

// outline is the size of a query before validation. It counts each fragment once.
type outline struct {
	fields, spreads, directives, introspection, alike int // in the text
	operations, fragments                             int
	extent                                            // of the largest operation

	byName map[string]*ast.FragmentDefinition
	known  map[string]extent
}

// extent is the depth of a selection and the number of its fields, after each spread is
// replaced by its fragment.
type extent struct{ depth, expanded int }

// outlineOf measures a query. It counts a cycle of fragments once: the validator refuses
// the query.
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

// excess says what a query has too much of, or returns "".
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
			part.depth++ // otherwise fragments without fields could nest without limit
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
	o.known[name] = extent{} // ends a cycle
	size := o.of(f.SelectionSet)
	o.known[name] = size
	return size
}
