package limit

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/features/query"
	"github.com/reelay/reelay/internal/paging"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/vektah/gqlparser/v2/ast"
)

const (
	// maxAnswer bounds the number of fields in an answer, if every page is full: some
	// megabytes.
	maxAnswer = 100_000
	// guessedList is the assumed length of a list that is not paged.
	guessedList = 5
)

// sizeKey is the name under which the statistics of an operation hold its Size.
const sizeKey = "size"

// Size estimates an answer before it is made.
type Size struct {
	fields int
	price  int // of the fields in lists, see query.ReadShares
	looks  int // the price of searching and counting rows
}

// SizeOf returns the estimate that the extension Queries made of an operation's answer.
func SizeOf(op *graphql.OperationContext) Size {
	s, _ := op.Stats.GetExtension(sizeKey).(Size)
	return s
}

// ClearSize makes the next response to the operation free.
func ClearSize(op *graphql.OperationContext) { op.Stats.SetExtension(sizeKey, nil) }

// Price returns what reading for the answer costs, in the unit of query.ReadShares.
func (s Size) Price() int { return s.price + s.looks }

// ActualPrice replaces the estimate of the fields by their real number.
func (s Size) ActualPrice(fields int) int { return s.looks + fields }

// plus adds two sizes. The sums stop just above maxAnswer, so they never overflow.
func (s Size) plus(other Size) Size {
	return Size{min(s.fields+other.fields, maxAnswer+1), min(s.price+other.price, maxAnswer+1), min(s.looks+other.looks, maxAnswer+1)}
}

// measure calculates the size of an answer. It looks at each fragment once. A validated
// query has no cycles of fragments.
type measure struct {
	variables map[string]any
	known     map[*ast.FragmentDefinition]Size
}

func (m measure) of(selections ast.SelectionSet) (total Size) {
	for _, selection := range selections {
		total = total.plus(m.selection(selection))
	}
	return total
}

func (m measure) selection(selection ast.Selection) Size {
	switch s := selection.(type) {
	case *ast.Field:
		return m.field(s)
	case *ast.InlineFragment:
		return m.of(s.SelectionSet)
	case *ast.FragmentSpread:
		all, done := m.known[s.Definition]
		if !done {
			all = m.of(s.Definition.SelectionSet)
			m.known[s.Definition] = all
		}
		return all
	}
	return Size{}
}

// summing are the fields that sum up many rows.
var summing = []string{"jobTotals", "costs", "reports", "statement", "usage"}

// field returns the size of a field and everything below it. Each field below a list
// has a price. Outside lists only nested lists have one.
func (m measure) field(f *ast.Field) Size {
	each, rows := m.of(f.SelectionSet), m.rows(f)
	all := Size{fields: 1 + rows*each.fields, price: rows * each.price, looks: each.looks}
	if isList(f) {
		all.price = rows * each.fields
	}
	if f.Name == "totalCount" {
		all.looks += query.CountPrice
	}
	if slices.Contains(summing, f.Name) {
		all.looks += query.TotalsPrice
	}
	if m.filters(f) {
		all.looks += query.SearchPrice
	}
	return Size{}.plus(all)
}

// filters reports whether a field searches for jobs.
func (m measure) filters(f *ast.Field) bool {
	if f.Definition == nil || f.Definition.Arguments.ForName("filter") == nil {
		return false
	}
	filter, _ := f.ArgumentMap(m.variables)["filter"].(map[string]any)
	return len(filter) > 0
}

// isList reports whether a field reads a list. The edges of a page belong to the list
// that is the page, and the results of a mutation are written, not read.
func isList(f *ast.Field) bool {
	return f.Definition != nil && f.Name != "edges" && f.Name != "results" && !isIntrospection(f.ObjectDefinition) &&
		(f.Definition.Arguments.ForName("first") != nil || f.Definition.Type.Elem != nil)
}

// rows returns how many objects answer a field. A page has as many as its argument
// first asks for, up to the limit of all pages. A list of inputs has one result for
// each input.
func (m measure) rows(field *ast.Field) int {
	if field.Definition == nil {
		return 1
	}
	if field.Definition.Arguments.ForName("inputs") != nil {
		inputs, _ := field.ArgumentMap(m.variables)["inputs"].([]any)
		return min(max(len(inputs), 1), submit.MaxSubmitJobs)
	}
	if field.Definition.Arguments.ForName("first") != nil {
		first, err := strconv.Atoi(fmt.Sprint(field.ArgumentMap(m.variables)["first"]))
		if err != nil {
			return paging.Max
		}
		if field.Name == "costs" { // its rows are a list below it, which counts as guessedList
			return min(max(first, 1), query.MaxCostRows/guessedList)
		}
		return min(max(first, 1), paging.Max)
	}
	if isList(field) {
		return guessedList
	}
	return 1
}

// isIntrospection reports whether a type belongs to introspection, whose depth the
// validator bounds.
func isIntrospection(d *ast.Definition) bool {
	return d != nil && len(d.Name) > 1 && d.Name[:2] == "__"
}
