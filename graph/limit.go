package graph

import (
	"context"
	"fmt"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/reelay/reelay/jobs"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

const (
	// maxTokens bounds what parsing and validating a query can cost, which grows
	// with the square of its fields.
	maxTokens = 2000
	// maxDepth is as deep as the introspection query of the usual tools.
	maxDepth = 15
	// maxFields bounds the fields of a query with its fragments written out.
	maxFields = 1000
	// maxAnswer bounds the fields of the answer, if every page is full: some
	// megabytes.
	maxAnswer = 100_000
)

// limits refuses queries that are cheap to send and dear to answer.
//
// gqlgen's own complexity limit is not used: it walks a fragment again for each
// spread, so that a kilobyte of nested fragments keeps it busy for minutes.
type limits struct{}

var _ interface {
	graphql.OperationParameterMutator
	graphql.OperationContextMutator
} = limits{}

func (limits) ExtensionName() string                          { return "Limits" }
func (limits) Validate(schema graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters refuses text that the parser would change.
func (limits) MutateOperationParameters(_ context.Context, request *graphql.RawParams) *gqlerror.Error {
	if wellformed.HasLoneSurrogate(request.Query) {
		return refusal(errLoneSurrogate)
	}
	return nil
}

// MutateOperationContext refuses a query before any of it runs.
func (limits) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if isGet(ctx) && op.Operation.Operation != ast.Query {
		return refusal(&jobs.Error{Code: codeInvalid, Message: "A GET request can only ask queries: send mutations with POST."})
	}
	size := measure{variables: op.Variables, known: map[*ast.FragmentDefinition]extent{}}.of(op.Operation.SelectionSet)
	if size.depth > maxDepth || size.fields > maxFields || size.answer > maxAnswer {
		return refusal(&jobs.Error{Code: codeTooComplex, Message: fmt.Sprintf(
			"A query may be %d levels deep, select %d fields, those of its fragments each time, and be answered with %d: "+
				"ask for less at once, or for shorter pages.", maxDepth, maxFields, maxAnswer)})
	}
	return nil
}

func refusal(e *jobs.Error) *gqlerror.Error {
	return &gqlerror.Error{Message: e.Message, Extensions: extensions(e, nil)}
}

// extent is how deep a selection is, how many fields it selects, and how many
// the answer may have.
type extent struct{ depth, fields, answer int }

// measure reckons with each fragment once. A validated query has no cycles.
type measure struct {
	variables map[string]any
	known     map[*ast.FragmentDefinition]extent
}

func (m measure) of(selections ast.SelectionSet) extent {
	var total extent
	for _, selection := range selections {
		part := m.selection(selection)
		total.depth = max(total.depth, part.depth)
		total.fields = min(total.fields+part.fields, maxFields+1) // never overflows
		total.answer = min(total.answer+part.answer, maxAnswer+1)
	}
	return total
}

func (m measure) selection(selection ast.Selection) extent {
	switch s := selection.(type) {
	case *ast.Field:
		inner := m.of(s.SelectionSet)
		return extent{inner.depth + 1, inner.fields + 1, 1 + m.page(s)*inner.answer}
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
	return extent{}
}

// page is how many rows a field asks for: its argument first, within what is
// ever answered.
func (m measure) page(field *ast.Field) int {
	if field.Definition == nil || field.Definition.Arguments.ForName("first") == nil {
		return 1
	}
	first, err := strconv.Atoi(fmt.Sprint(field.ArgumentMap(m.variables)["first"]))
	if err != nil {
		return jobs.MaxPage
	}
	return min(max(first, 1), jobs.MaxPage)
}
