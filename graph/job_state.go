package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
)

// asksForState tells whether of the job of the field that is being resolved no more
// is asked for than models.GetJobStates reads: that is how clients wait for one.
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
