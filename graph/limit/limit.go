// Package limit refuses queries that are cheap to send and expensive to validate or to
// answer, and measures what the answers of the others may cost.
package limit

import (
	"context"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/wellformed"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
)

const (
	// MaxTokens bounds the cost of parsing a query.
	MaxTokens = 2000
	// MaxErrors bounds how many errors a refused query is answered with.
	MaxErrors = 10

	// The cache holds small queries only, and not too many of them: text that callers
	// send must not fill the memory.
	cachedQueries  = 500
	maxCachedQuery = 16 << 10
)

// Cache keeps parsed and validated queries.
type Cache struct {
	graphql.Cache[*ast.QueryDocument]
}

// NewCache returns an empty cache.
func NewCache() Cache { return Cache{lru.New[*ast.QueryDocument](cachedQueries)} }

// Add implements graphql.Cache. It does not keep long queries, whose text is often data.
func (c Cache) Add(ctx context.Context, query string, doc *ast.QueryDocument) {
	if len(query) <= maxCachedQuery {
		c.Cache.Add(ctx, query, doc)
	}
}

// Queries is the extension that refuses queries.
//
// It does not use gqlgen's complexity limit, which walks a fragment again for each
// spread: a kilobyte of nested fragments keeps it busy for minutes. The time of
// validation grows with the square of the number of fields and fragments, so a query
// that has too many is refused before validation.
type Queries struct {
	Validated Cache // the cache of the server; its queries are not measured again
	Schema    *ast.Schema
}

var _ interface {
	graphql.OperationParameterMutator
	graphql.OperationContextMutator
} = Queries{}

// ExtensionName implements graphql.HandlerExtension.
func (Queries) ExtensionName() string { return "Limits" }

// Validate implements graphql.HandlerExtension.
func (Queries) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters refuses text that the parser would change, queries that are
// too large to validate, and variables of the wrong kind. It leaves text that is not a
// query to the parser.
func (q Queries) MutateOperationParameters(ctx context.Context, request *graphql.RawParams) *gqlerror.Error {
	if wellformed.HasLoneSurrogate(request.Query) {
		return failure.Refusal(failure.LoneSurrogate)
	}
	doc, validated := q.Validated.Get(ctx, request.Query)
	if !validated {
		var err error
		if doc, err = parser.ParseQueryWithTokenLimit(&ast.Source{Input: request.Query}, MaxTokens); err != nil {
			return nil
		}
		if excess := excessOf(q.Schema, doc, request.Query); excess != "" {
			return failure.Refusal(apierror.New(failure.CodeTooComplex, "%s", excess))
		}
	}
	if len(doc.Operations) == 0 {
		return nil
	}
	op := doc.Operations.ForName(request.OperationName)
	if op == nil {
		return failure.Refusal(errWhichOperation)
	}
	if refused := (variables{q.Schema}).check(op, request.Variables); refused != nil {
		return failure.Refusal(refused)
	}
	return nil
}

var (
	errWhichOperation = apierror.New(failure.CodeInvalid,
		"operationName must be the name of one of the query's operations, and can be left out only if there is only one.")
	errOneStream = apierror.New(failure.CodeInvalid,
		"A subscription selects exactly one field, its stream: send one operation for each stream.")
)

// MutateOperationContext refuses an operation before any part of it runs.
func (Queries) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation == ast.Subscription && !isOneStream(op) {
		return failure.Refusal(errOneStream)
	}
	answer := measure{variables: op.Variables, known: map[*ast.FragmentDefinition]Size{}}.of(op.Operation.SelectionSet)
	if answer.fields > maxAnswer {
		return failure.Refusal(apierror.New(failure.CodeTooComplex,
			"The answer to this query may have more than %d fields: ask for less at once, or for shorter pages.", maxAnswer))
	}
	op.Stats.SetExtension(sizeKey, answer)
	return nil
}

// isOneStream reports whether a subscription selects exactly one stream, with its
// fragments and directives applied.
func isOneStream(op *graphql.OperationContext) bool {
	fields := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})
	return len(fields) == 1 && !strings.HasPrefix(fields[0].Name, "__")
}
