package graph

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/apierror"
	"github.com/reelay/reelay/jobs/paging"
	"github.com/reelay/reelay/jobs/query"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

const (
	// maxTokens bounds what parsing a query can cost.
	maxTokens = 2000
	// maxAnswer bounds the fields of the answer, if every page is full: some
	// megabytes.
	maxAnswer = 100_000
	// guessedList is how long a list is taken to be that is given whole.
	guessedList = 5
	// maxErrors bounds what is said of a query that is refused.
	maxErrors = 10
)

// limits refuses queries that are cheap to send and dear to validate or answer.
//
// gqlgen's own complexity limit is not used: it walks a fragment again for each
// spread, so that a kilobyte of nested fragments keeps it busy for minutes. And
// validation takes time by the square of a query's fields and fragments: what
// has too many is refused before.
type limits struct {
	known     graphql.Cache[*ast.QueryDocument] // queries that passed
	variables variables
}

var _ interface {
	graphql.OperationParameterMutator
	graphql.OperationContextMutator
} = limits{}

func (limits) ExtensionName() string                          { return "Limits" }
func (limits) Validate(schema graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters refuses text that the parser would change, queries that
// are too large to be validated, and variables of another kind than their own. What
// is no query at all is left to the parser.
func (l limits) MutateOperationParameters(ctx context.Context, request *graphql.RawParams) *gqlerror.Error {
	if wellformed.HasLoneSurrogate(request.Query) {
		return refusal(errLoneSurrogate)
	}
	doc, passed := l.known.Get(ctx, request.Query)
	if !passed {
		var err error
		if doc, err = parser.ParseQueryWithTokenLimit(&ast.Source{Input: request.Query}, maxTokens); err != nil {
			return nil
		}
		excess := outlineOf(doc).excess()
		if excess == "" && hasLongName(request.Query) {
			excess = fmt.Sprintf("A name in a query may have %d bytes: choose a shorter one.", maxName)
		}
		if excess != "" {
			return refusal(&apierror.Error{Code: codeTooComplex, Message: excess})
		}
	}
	if len(doc.Operations) == 0 {
		return nil
	}
	op := doc.Operations.ForName(request.OperationName)
	if op == nil {
		return refusal(errWhichOperation)
	}
	if refused := l.variables.check(op, request.Variables); refused != nil {
		return refusal(refused)
	}
	return nil
}

var (
	errWhichOperation = &apierror.Error{
		Code:    codeInvalid,
		Message: "operationName must be the name of one of the query's operations, and can be left out only if there is but one.",
	}
	errOneStream = &apierror.Error{
		Code:    codeInvalid,
		Message: "A subscription selects exactly one field, its stream: send one operation for each stream.",
	}
)

// MutateOperationContext refuses an operation before any of it runs.
func (limits) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if refused := transported(ctx, op.Operation.Operation); refused != nil {
		return refusal(refused)
	}
	if op.Operation.Operation == ast.Subscription && !isOneStream(op) {
		return refusal(errOneStream)
	}
	answer := measure{variables: op.Variables, known: map[*ast.FragmentDefinition]size{}}.of(op.Operation.SelectionSet)
	if answer.fields > maxAnswer {
		return refusal(&apierror.Error{Code: codeTooComplex, Message: fmt.Sprintf(
			"The answer to this query may have more than %d fields: ask for less at once, or for shorter pages.", maxAnswer)})
	}
	op.Stats.SetExtension(sizeOf, answer)
	return nil
}

// isOneStream tells whether a subscription selects one stream, after its
// fragments and directives are looked through.
func isOneStream(op *graphql.OperationContext) bool {
	fields := graphql.CollectFields(op, op.Operation.SelectionSet, subscriptionImplementors)
	return len(fields) == 1 && !strings.HasPrefix(fields[0].Name, "__")
}

func refusal(e *apierror.Error) *gqlerror.Error {
	return &gqlerror.Error{Message: e.Message, Extensions: extensions(e)}
}

// size is how large an answer may be.
type size struct {
	fields int
	price  int // of the lists' fields: see query.ReadShares
	looks  int // the price of looking for rows and of counting them
}

// plus never overflows.
func (s size) plus(other size) size {
	return size{min(s.fields+other.fields, maxAnswer+1), min(s.price+other.price, maxAnswer+1), min(s.looks+other.looks, maxAnswer+1)}
}

// measure calculates the size of an answer, with each fragment once. A validated query
// has no cycles.
type measure struct {
	variables map[string]any
	known     map[*ast.FragmentDefinition]size
}

func (m measure) of(selections ast.SelectionSet) (total size) {
	for _, selection := range selections {
		total = total.plus(m.selection(selection))
	}
	return total
}

func (m measure) selection(selection ast.Selection) size {
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
	return size{}
}

// field is the size of a field with all that is in it. In a list each field has its
// price, outside only what lists there have.
func (m measure) field(f *ast.Field) size {
	each, rows := m.of(f.SelectionSet), m.rows(f)
	all := size{fields: 1 + rows*each.fields, price: rows * each.price, looks: each.looks}
	if isList(f) {
		all.price = rows * each.fields
	}
	if f.Name == "totalCount" {
		all.looks += query.CountPrice
	}
	if m.filters(f) {
		all.looks += query.SearchPrice
	}
	return size{}.plus(all)
}

// filters tells whether a field looks for jobs.
func (m measure) filters(f *ast.Field) bool {
	if f.Definition == nil || f.Definition.Arguments.ForName("filter") == nil {
		return false
	}
	filter, _ := f.ArgumentMap(m.variables)["filter"].(map[string]any)
	return len(filter) > 0
}

// isList tells whether a field reads a list. The lists within a page are the page
// itself, and a list of results was written before it is answered with.
func isList(f *ast.Field) bool {
	return f.Definition != nil && f.Name != "edges" && f.Name != "results" && !isIntrospection(f.ObjectDefinition) &&
		(f.Definition.Arguments.ForName("first") != nil || f.Definition.Type.Elem != nil)
}

// rows is how many objects a field is answered with. A page has as many as its
// argument first says, within what is ever answered; its edges are those. A list of
// inputs has one for each; its results are those.
func (m measure) rows(field *ast.Field) int {
	if field.Definition == nil {
		return 1
	}
	if field.Definition.Arguments.ForName("inputs") != nil {
		inputs, _ := field.ArgumentMap(m.variables)["inputs"].([]any)
		return min(max(len(inputs), 1), jobs.MaxSubmitJobs)
	}
	if field.Definition.Arguments.ForName("first") != nil {
		first, err := strconv.Atoi(fmt.Sprint(field.ArgumentMap(m.variables)["first"]))
		if err != nil {
			return paging.Max
		}
		return min(max(first, 1), paging.Max)
	}
	if isList(field) {
		return guessedList
	}
	return 1
}

// isIntrospection tells whether a type is one of introspection, whose depth the
// validator bounds.
func isIntrospection(d *ast.Definition) bool {
	return d != nil && len(d.Name) > 1 && d.Name[:2] == "__"
}
