package limit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// expand replaces spreads by their fragments, which outlineOf avoids. It gives up on cycles
// and on long results.
func expand(doc *ast.QueryDocument, selections ast.SelectionSet, inside []string, budget *int) (size extent, ok bool) {
	for _, selection := range selections {
		if *budget--; *budget < 0 {
			return size, false
		}
		var part extent
		switch s := selection.(type) {
		case *ast.Field:
			part, ok = expand(doc, s.SelectionSet, inside, budget)
			part.depth, part.expanded = part.depth+1, part.expanded+1
		case *ast.InlineFragment:
			part, ok = expand(doc, s.SelectionSet, inside, budget)
			part.depth++
		case *ast.FragmentSpread:
			ok = true
			if f := doc.Fragments.ForName(s.Name); f != nil {
				for _, name := range inside {
					if name == s.Name {
						return size, false
					}
				}
				part, ok = expand(doc, f.SelectionSet, append(inside, s.Name), budget)
			}
		}
		if !ok {
			return size, false
		}
		size.depth, size.expanded = max(size.depth, part.depth), size.expanded+part.expanded
	}
	return size, true
}

func FuzzLimits(f *testing.F) {
	f.Add("{ viewer { role } }")
	f.Add("{ a ...F } fragment F on Job { a b { c } ...G } fragment G on Job { x ... on Job { y } }")
	f.Add("{ ...F } fragment F on Job { ...F }")
	f.Add("query A { a: b ...F ...F } query B { ...F } fragment F on Q { a b }")
	f.Add("{ ...Unknown @skip(if: true) __schema { types { name } } }")
	for _, query := range Hostile {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, MaxTokens)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, fragment := range doc.Fragments {
			if names[fragment.Name] {
				return // the validator refuses it
			}
			names[fragment.Name] = true
		}
		got, budget := outlineOf(doc), 100_000
		var want extent
		for _, operation := range doc.Operations {
			size, ok := expand(doc, operation.SelectionSet, nil, &budget)
			if !ok {
				return
			}
			want.depth, want.expanded = max(want.depth, size.depth), max(want.expanded, size.expanded)
		}
		require.Equal(t, want.depth, got.depth)
		require.Equal(t, min(want.expanded, maxExpanded+1), got.expanded)
	})
}

func TestOutline(t *testing.T) {
	t.Parallel()
	for excess, query := range map[string]string{
		"":                  "{ viewer { role } }",
		"15 levels":         strings.Repeat("{a", 16) + strings.Repeat("}", 16),
		"500 fields":        "{" + strings.Repeat("a{b c d e f g h i j k l m n o p q r s t u}", 24) + "}",
		"30 fields of one":  "{" + strings.Repeat("x: a ", 31) + "}",
		"3 fields of intro": "{ a: __schema{x} b: __type{x} c: __schema{x} d: __schema{x} __typename }",
		"20 operations":     strings.Repeat("query{a}", 21),
		"20 fragments":      "{a}" + strings.Repeat("fragment f on Job{a}", 21),
		"40 uses":           "{" + strings.Repeat("...f ", 41) + "} fragment f on Query { a }",
		"50 directives":     "{a" + strings.Repeat("@x", 51) + "}",
		"1000 fields, those": "{...f" + strings.Repeat(" ...g", 12) + "} fragment f on Q{a} fragment g on Q{" +
			strings.Repeat("a{b c d e} ", 20) + "}",
	} {
		doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, MaxTokens)
		require.NoError(t, err, query)
		require.Contains(t, outlineOf(doc).excess(), excess)
		if excess == "" {
			require.Empty(t, outlineOf(doc).excess())
		}
	}
}
