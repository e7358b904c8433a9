package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
)

// asksForState reports whether the field that is being resolved selects only what
// models.GetJobStates reads of a job. Clients that wait for a job do so.
func asksForState(ctx context.Context) bool {
	field := graphql.GetFieldContext(ctx).Field
	for _, f := range graphql.CollectFields(graphql.GetOperationContext(ctx), field.Selections, jobImplementors) {
		switch f.Name {
		case "__typename", "id", "status", "progress":
		default:
			return false
		}
	}
	return true
}
