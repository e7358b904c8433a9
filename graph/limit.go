package graph

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs"
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
			return refusal(&jobs.Error{Code: codeTooComplex, Message: excess})
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
	errWhichOperation = &jobs.Error{
		Code:    codeInvalid,
		Message: "operationName must be the name of one of the query's operations, and can be left out only if there is but one.",
	}
	errOneStream = &jobs.Error{
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
	answer := measure{variables: op.Variables, known: map[*ast.FragmentDefinition]int{}}.of(op.Operation.SelectionSet)
	if answer > maxAnswer {
		return refusal(&jobs.Error{Code: codeTooComplex, Message: fmt.Sprintf(
			"The answer to this query may have more than %d fields: ask for less at once, or for shorter pages.", maxAnswer)})
	}
	return nil
}

// isOneStream tells whether a subscription selects one stream, after its
// fragments and directives are looked through.
func isOneStream(op *graphql.OperationContext) bool {
	fields := graphql.CollectFields(op, op.Operation.SelectionSet, subscriptionImplementors)
	return len(fields) == 1 && !strings.HasPrefix(fields[0].Name, "__")
}

func refusal(e *jobs.Error) *gqlerror.Error {
	return &gqlerror.Error{Message: e.Message, Extensions: extensions(e)}
}

// measure reckons how many fields an answer may have, with each fragment once. A
// validated query has no cycles.
type measure struct {
	variables map[string]any
	known     map[*ast.FragmentDefinition]int
}

func (m measure) of(selections ast.SelectionSet) int {
	total := 0
	for _, selection := range selections {
		total = min(total+m.selection(selection), maxAnswer+1) // never overflows
	}
	return total
}

func (m measure) selection(selection ast.Selection) int {
	switch s := selection.(type) {
	case *ast.Field:
		return 1 + m.rows(s)*m.of(s.SelectionSet)
	case *ast.InlineFragment:
		return m.of(s.SelectionSet)
	case *ast.FragmentSpread:
		size, done := m.known[s.Definition]
		if !done {
			size = m.of(s.Definition.SelectionSet)
			m.known[s.Definition] = size
		}
		return size
	}
	return 0
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
			return jobs.MaxPage
		}
		return min(max(first, 1), jobs.MaxPage)
	}
	if field.Definition.Type.Elem != nil && field.Name != "edges" && field.Name != "results" && !isIntrospection(field.ObjectDefinition) {
		return guessedList
	}
	return 1
}

// isIntrospection tells whether a type is one of introspection, whose depth the
// validator bounds.
func isIntrospection(d *ast.Definition) bool {
	return d != nil && len(d.Name) > 1 && d.Name[:2] == "__"
}
